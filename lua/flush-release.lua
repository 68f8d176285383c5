#!lua flags=allow-oom
-- Gives a stream up, so that another flusher takes it at once. A batch in flight stays for it to replay.
--
-- KEYS[1] events:state
--
-- ARGV[1] epoch
--
-- Returns 1.
-- Errors: FENCED -4; nothing was done.

if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return -4
end

redis.call('HDEL', KEYS[1], 'owner', 'beat')
return 1
