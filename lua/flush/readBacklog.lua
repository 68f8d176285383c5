#!lua flags=no-writes
-- Reads a stream's backlog.
-- KEYS[1..3] state, stream, dead letters
-- Returns {pending events, pending bytes, age of the oldest entry in milliseconds or 0, dead letters}.

local state = redis.call('HMGET', KEYS[1], 'events', 'bytes')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
local age = oldest and now - tonumber(string.match(oldest[1], '^%d+')) or 0
return { tonumber(state[1] or 0), tonumber(state[2] or 0), math.max(age, 0), redis.call('XLEN', KEYS[3]) }
