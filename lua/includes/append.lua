-- Appends lines to the stream of events KEYS[2], as one entry; its pending figures, in KEYS[3], change with it.
local function append(count, lines)
  redis.call('XADD', KEYS[2], '*', 'n', count, 'd', lines)
  redis.call('HINCRBY', KEYS[3], 'events', count)
  redis.call('HINCRBY', KEYS[3], 'bytes', #lines)
end
