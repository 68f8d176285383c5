#!lua flags=allow-oom
-- Gives a consumer entries of consumers that have been idle, and deletes idle consumers without entries.
-- KEYS[1] stream
-- ARGV[1] consumer group   ARGV[2] consumer   ARGV[3] idle time, ms   ARGV[4] maximum entries
-- Returns the entries, as XCLAIM does.

local stream, group = KEYS[1], ARGV[1]
if redis.call('EXISTS', stream) == 0 then
  return {}
end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  local name, idle = consumer[2], consumer[6]
  if idle >= tonumber(ARGV[3]) and name ~= ARGV[2] then
    local ids = {}
    for i, pending in ipairs(redis.call('XPENDING', stream, group, '-', '+', ARGV[4], name)) do
      ids[i] = pending[1]
    end
    if #ids > 0 then
      return redis.call('XCLAIM', stream, group, ARGV[2], 0, unpack(ids))
    end
    redis.call('XGROUP', 'DELCONSUMER', stream, group, name)
  end
end
return {}
