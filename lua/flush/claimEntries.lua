#!lua flags=allow-oom
-- Claims entries of a consumer that has been idle, and deletes idle consumers without entries.
-- KEYS[1] stream
-- ARGV[1] consumer group   ARGV[2] claiming consumer   ARGV[3] idle time, ms   ARGV[4] maximum entries
-- ARGV[5] id: only entries after it
-- Returns the number of claimed entries.

local stream, group = KEYS[1], ARGV[1]
if redis.call('EXISTS', stream) == 0 then
  return 0
end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  local name, pending, idle = consumer[2], consumer[4], consumer[6]
  if idle >= tonumber(ARGV[3]) then
    local ids = {}
    for i, entry in ipairs(redis.call('XPENDING', stream, group, '(' .. ARGV[5], '+', ARGV[4], name)) do
      ids[i] = entry[1]
    end
    if #ids > 0 then
      ids[#ids + 1] = 'JUSTID'
      return #redis.call('XCLAIM', stream, group, ARGV[2], 0, unpack(ids))
    elseif pending == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, name)
    end
  end
end
return 0
