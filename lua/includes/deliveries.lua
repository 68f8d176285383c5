-- Needs `queue`, `taken`, `state`, `dead`, and `most`: maximum bytes of dead letters; the oldest are dropped.
-- Scores of `taken`: due time in milliseconds * 16 + attempts.
local function remove(id, line)
  redis.call('XDEL', queue, id)
  redis.call('ZREM', taken, id)
  redis.call('HINCRBY', state, 'bytes', 0 - #line)
end

local function dead_letter(id, line, reason)
  remove(id, line)
  redis.call('XADD', dead, '*', 'l', line, 'r', reason)
  redis.call('HINCRBY', state, 'dead', 1)
  local bytes = redis.call('HINCRBY', state, 'deadBytes', #line)
  while bytes > most do
    local oldest = redis.call('XRANGE', dead, '-', '+', 'COUNT', 1)[1]
    redis.call('XDEL', dead, oldest[1])
    bytes = redis.call('HINCRBY', state, 'deadBytes', 0 - #oldest[2][2])
  end
end
