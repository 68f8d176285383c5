#!lua flags=allow-oom
-- Queues deliveries, due now. Above the maximum, drops the oldest, and counts them as dead letters. Runs at maxmemory,
-- because the flusher, which frees memory, waits for it.
-- KEYS[1..3] queue; due: id -> milliseconds since 1970 * 16 + attempts; state
-- ARGV[1] maximum bytes of pending deliveries   ARGV[2..] lines
-- Returns the number of new dead letters.

local queue, due, state = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local added = 0
for i = 2, #ARGV do
  redis.call('ZADD', due, string.format('%.0f', now * 16), redis.call('XADD', queue, '*', 'l', ARGV[i]))
  added = added + #ARGV[i]
end

local over = redis.call('HINCRBY', state, 'bytes', added) - ARGV[1]
local dropped, dead = 0, 0
while dropped < over do
  local oldest = redis.call('XRANGE', queue, '-', '+', 'COUNT', 1)[1]
  if not oldest then
    break
  end
  redis.call('XDEL', queue, oldest[1])
  redis.call('ZREM', due, oldest[1])
  dropped = dropped + #oldest[2][2]
  dead = dead + 1
end
redis.call('HINCRBY', state, 'bytes', 0 - dropped)
redis.call('HINCRBY', state, 'dead', dead)
return dead
