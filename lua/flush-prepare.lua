#!lua flags=allow-oom
-- Stores the manifest of a batch before the batch is used. After a crash the stream's next owner replays it.
--
-- KEYS[1] events:state
--
-- ARGV[1] epoch
-- ARGV[2] manifest, JSON: {first, last, rows, bytes, token}
--
-- Returns 1.
-- Errors: FENCED -4, MANIFEST -5 (there is another batch in flight); nothing was done.

local state = redis.call('HMGET', KEYS[1], 'epoch', 'manifest')
if state[1] ~= ARGV[1] then
  return -4
end
if state[2] and state[2] ~= ARGV[2] then
  return -5
end

redis.call('HSET', KEYS[1], 'manifest', ARGV[2])
return 1
