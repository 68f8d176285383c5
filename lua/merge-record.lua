#!lua flags=allow-oom
-- Third step of a merge: the heir has everything, and says so on its record, by which it is found out later whether a
-- failover forgot it. What analysts are to be told waits in the heir's outbox.
--
-- KEYS[1] profile of the heir   KEYS[2] merged: profiles that the heir received   KEYS[3] outbox of the heir
--
-- ARGV[1]   deadline, in milliseconds of this server's clock
-- ARGV[2]   the profile that was merged away
-- ARGV[3]   nonce of this merge
-- ARGV[4..] event id, line; one pair for each profile that is the heir's now
--
-- Returns {event id, line, ...} of this merge that are not out, maybe of an earlier try, or the heir's heir (string)
-- where it was merged away itself, `@` where it is being erased, or does not expect this
-- merge (any more, see register.lua); then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
if ms > tonumber(ARGV[1]) then
  return -1
end

local heir = redis.call('HGET', KEYS[1], 'heir')
if heir or redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  return heir or '@'
end
local deed = '\nmerge ' .. ARGV[2] .. '\n'
if redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
  for i = 4, #ARGV, 2 do
    redis.call('HSET', KEYS[3], ARGV[i], string.format('%.0f', ms) .. deed .. ARGV[i + 1])
  end
end
local pending, told = redis.call('HGETALL', KEYS[3]), {}
for i = 1, #pending, 2 do
  local _, last = string.find(pending[i + 1], deed, 1, true)
  if last then
    told[#told + 1] = pending[i]
    told[#told + 1] = string.sub(pending[i + 1], last + 1)
  end
end
return told
