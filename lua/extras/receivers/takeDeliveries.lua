#!lua flags=allow-oom
-- Leases due deliveries, retries first. If the process dies, they are due again when the lease ends.
-- KEYS[1..3] queue, taken, state
-- ARGV[1..2] maximum number, lease in milliseconds
-- Returns {id, attempts, line, ...}.

local queue, taken, state = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local found = {}
local function take(entry, attempts)
  local id = entry[1]
  redis.call('ZADD', taken, string.format('%.0f', (now + ARGV[2]) * 16 + attempts), id)
  found[#found + 1] = id
  found[#found + 1] = attempts
  found[#found + 1] = entry[2][2]
end

local latest = string.format('%.0f', now * 16 + 15)
local due = redis.call('ZRANGE', taken, '-inf', latest, 'BYSCORE', 'LIMIT', 0, ARGV[1], 'WITHSCORES')
for i = 1, #due, 2 do
  local entry = redis.call('XRANGE', queue, due[i], due[i])[1]
  if entry then
    take(entry, due[i + 1] % 16)
  else
    -- deleted by hand
    redis.call('ZREM', taken, due[i])
  end
end

local left = ARGV[1] - #due / 2
if left > 0 then
  local cursor = redis.call('HGET', state, 'cursor')
  local new = redis.call('XRANGE', queue, cursor and '(' .. cursor or '-', '+', 'COUNT', left)
  for _, entry in ipairs(new) do
    take(entry, 0)
  end
  if #new > 0 then
    redis.call('HSET', state, 'cursor', new[#new][1])
  end
end
return found
