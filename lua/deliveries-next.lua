#!lua flags=no-writes
-- Reads what is to be sent to a receiver: first what failed and is due again, then what was not read yet.
--
-- KEYS[1] owner   KEYS[2] queue   KEYS[3] retries
--
-- ARGV[1] epoch   ARGV[2] id of the last delivery that was read; `-` for none   ARGV[3] how many at most, of each kind
--
-- Returns {id of the last delivery that was read now, {id, attempts so far, line, id, ...}}.
-- Errors: FENCED -4.

if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return -4
end
local queue, retries, last = KEYS[2], KEYS[3], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local found = {}
local function take(entry, attempts)
  found[#found + 1] = entry[1]
  found[#found + 1] = attempts
  found[#found + 1] = entry[2][2]
end

local latest = string.format('%.0f', now * 16 + 15)
local due = redis.call('ZRANGE', retries, '-inf', latest, 'BYSCORE', 'LIMIT', 0, ARGV[3], 'WITHSCORES')
for i = 1, #due, 2 do
  take(redis.call('XRANGE', queue, due[i], due[i])[1], due[i + 1] % 16)
end
local start = last == '-' and '-' or '(' .. last
for _, entry in ipairs(redis.call('XRANGE', queue, start, '+', 'COUNT', ARGV[3])) do
  last = entry[1]
  if not redis.call('ZSCORE', retries, last) then
    take(entry, 0)
  end
end
return { last, found }
