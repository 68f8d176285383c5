#!lua flags=allow-oom
-- Leases due deliveries. If the process dies, they are due again when the lease ends.
-- KEYS[1..2] queue, due (see addDeliveries.lua)
-- ARGV[1..2] maximum number, lease in milliseconds
-- Returns {{id, attempts, line}, ...}.

local queue, due = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local latest = string.format('%.0f', now * 16 + 15)
local ids = redis.call('ZRANGE', due, '-inf', latest, 'BYSCORE', 'LIMIT', 0, ARGV[1], 'WITHSCORES')
local found = {}
for i = 1, #ids, 2 do
  local id, attempts = ids[i], ids[i + 1] % 16
  local entry = redis.call('XRANGE', queue, id, id)[1]
  if entry then
    redis.call('ZADD', due, string.format('%.0f', (now + ARGV[2]) * 16 + attempts), id)
    found[#found + 1] = { id, attempts, entry[2][2] }
  else
    -- The entry was deleted by hand.
    redis.call('ZREM', due, id)
  end
end
return found
