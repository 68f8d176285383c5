-- What waits for a receiver: `queue`, `taken`, `state`, `dead`; `most`: bytes that its dead letters may have.
-- The score of one that was taken is the millisecond in which it is due again times 16, plus the attempts so far.
local function remove(id, line)
  redis.call('XDEL', queue, id)
  redis.call('ZREM', taken, id)
  redis.call('HINCRBY', state, 'bytes', 0 - #line)
end

-- Makes a delivery a dead letter. Where these are too many the oldest are dropped.
local function bury(id, line, reason)
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
