#!lua flags=allow-oom
-- The owner's heartbeat; answers with what is waiting, for its metrics.
--
-- KEYS[1] events:state   KEYS[2] events   KEYS[3] events:dead
--
-- ARGV[1] epoch
--
-- Returns {pending events, pending bytes, milliseconds since the oldest entry (0 where there is none), dead letters}.
-- Errors: FENCED -4; nothing was done.

local state = redis.call('HMGET', KEYS[1], 'epoch', 'events', 'bytes')
if state[1] ~= ARGV[1] then
  return -4
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'beat', now)

local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
local age = oldest and now - tonumber(string.match(oldest[1], '^%d+')) or 0
return { tonumber(state[2] or 0), tonumber(state[3] or 0), math.max(age, 0), redis.call('XLEN', KEYS[3]) }
