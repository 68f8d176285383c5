#!lua flags=allow-oom
-- Records the result of an attempt.
-- KEYS[1..3] queue, due (see addDeliveries.lua), state
-- ARGV[1..2] id; `done`, `retry`, `dead`, or `drop` if there was no attempt, because the visitor was erased
-- ARGV[3..5] attempts, milliseconds until the retry, error
-- Returns the time of the first failure since the last success, milliseconds since 1970. Returns 0 after `done` or
--   `drop`, or if the receiver was removed.

local queue, due, state = KEYS[1], KEYS[2], KEYS[3]
local id, outcome = ARGV[1], ARGV[2]
if redis.call('EXISTS', state) == 0 then
  -- The receiver was removed.
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The entry may be absent: while in flight, it may have been dropped by addDeliveries.lua or erased.
local entry = redis.call('XRANGE', queue, id, id)[1]
if entry and outcome == 'retry' then
  redis.call('ZADD', due, string.format('%.0f', (now + ARGV[4]) * 16 + ARGV[3]), id)
elseif entry then
  redis.call('XDEL', queue, id)
  redis.call('ZREM', due, id)
  redis.call('HINCRBY', state, 'bytes', 0 - #entry[2][2])
  redis.call('HINCRBY', state, 'dead', outcome == 'dead' and 1 or 0)
end
if outcome == 'drop' then
  return 0
end

-- Counts of the last hour: a ring of steps of five minutes.
local step = math.floor(now / 300000)
local slot = 'recent' .. step % 13
local of, delivered, failures = string.match(redis.call('HGET', state, slot) or '', '(%d+) (%d+) (%d+)')
if tonumber(of) ~= step then
  delivered, failures = 0, 0
end
if outcome == 'done' then
  delivered = delivered + 1
  redis.call('HSET', state, 'lastSuccessAt', now)
  redis.call('HINCRBY', state, 'delivered', 1)
  redis.call('HDEL', state, 'failingSince')
else
  failures = failures + 1
  redis.call('HSET', state, 'lastFailureAt', now, 'lastError', ARGV[5])
  redis.call('HINCRBY', state, 'failures', 1)
  redis.call('HSETNX', state, 'failingSince', now)
end
redis.call('HSET', state, slot, step .. ' ' .. delivered .. ' ' .. failures)
return tonumber(redis.call('HGET', state, 'failingSince') or 0)
