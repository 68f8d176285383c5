#!lua flags=no-writes
-- How a stream stands, for metrics; changes nothing and needs no epoch.
--
-- KEYS[1] events:state   KEYS[2] events   KEYS[3] events:dead
--
-- Returns {pending events, pending bytes, milliseconds since the oldest entry (0 where there is none), dead letters,
-- epoch ('0' before the first), milliseconds since the owner's last heartbeat (-1 where no flusher owns the stream)}.

local state = redis.call('HMGET', KEYS[1], 'events', 'bytes', 'epoch', 'owner', 'beat')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
local age = oldest and now - tonumber(string.match(oldest[1], '^%d+')) or 0
return {
  tonumber(state[1] or 0),
  tonumber(state[2] or 0),
  math.max(age, 0),
  redis.call('XLEN', KEYS[3]),
  state[3] or '0',
  state[4] and math.max(now - tonumber(state[5] or 0), 0) or -1,
}
