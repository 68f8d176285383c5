#!lua flags=allow-oom
-- Queues deliveries; above the maximum the oldest become dead letters. Runs at maxmemory, because the flusher, which
-- frees memory, waits for it.
-- KEYS[1..4] queue, taken, state, dead letters
-- ARGV[1] maximum bytes, of pending deliveries and of dead letters   ARGV[2..] lines
-- Returns the number of new dead letters.

local queue, taken, state, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local most = tonumber(ARGV[1])
-- @include deliveries

local added = 0
for i = 2, #ARGV do
  redis.call('XADD', queue, '*', 'l', ARGV[i])
  added = added + #ARGV[i]
end
local bytes = redis.call('HINCRBY', state, 'bytes', added)

local dead_letters = 0
while bytes > most do
  local oldest = redis.call('XRANGE', queue, '-', '+', 'COUNT', 1)[1]
  if not oldest then
    break
  end
  local line = oldest[2][2]
  dead_letter(oldest[1], line, 'too many deliveries were pending')
  bytes = bytes - #line
  dead_letters = dead_letters + 1
end
return dead_letters
