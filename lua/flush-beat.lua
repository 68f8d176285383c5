#!lua flags=allow-oom
-- The owner's heartbeat.
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

local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'beat', time[1] * 1000 + math.floor(time[2] / 1000))
return 1
