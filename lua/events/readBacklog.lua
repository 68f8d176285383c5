#!lua flags=no-writes
-- Reads what waits in a stream. The oldest entry's lines may be long, so they stay here.
-- KEYS[1..3] stream, its state, dead letters
-- Returns {rows, bytes, time of the oldest entry in milliseconds since 1970 or 0, dead letters}.

local state = redis.call('HMGET', KEYS[2], 'events', 'bytes')
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
return {
  tonumber(state[1] or 0),
  tonumber(state[2] or 0),
  oldest and tonumber(string.match(oldest[1], '^%d+')) or 0,
  redis.call('XLEN', KEYS[3]),
}
