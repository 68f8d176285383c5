-- Lets a guest go that was not seen for long, with everything that it has, in one step: its keys are in one slot.
--
-- KEYS[1] its door   KEYS[2] its own profile   KEYS[3] its outbox
-- KEYS[4] room of its own profile   KEYS[5] what came to that room   KEYS[6] leads of its bucket
-- KEYS[7..] whatever else there may be of it
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] seconds of a day
-- ARGV[3] first day of which guests stay
-- ARGV[4] the profile
--
-- Returns a word, and nothing was done except for `gone`, `led` and `noted`:
--   gone    nothing is left of it (its `ids` field was removed when the day was noted, see settle-guest.lua)
--   led     the same, and its share code and digests of e-mail addresses are in the leads: their keys are still to go
--   stays   it was seen, it is away, or it is no guest: its profile is a room of others, which only a failover brings about
--   noted   it had no day, or one that is still to come; it has today's now
--   waits   events of its outbox are not in the stream yet
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[2], 'owner', 'heir', 'share')
local leads = redis.call('HKEYS', KEYS[5])
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  return 'stays'
end
local today = math.floor(now[1] / ARGV[2])
local day = tonumber(redis.call('HGET', KEYS[1], '') or today + 1)
if day > today then
  redis.call('HSET', KEYS[1], '', today)
  return 'noted'
end
if day >= tonumber(ARGV[3]) or facts[1] or facts[2] or redis.call('EXISTS', KEYS[4]) == 1 then
  return 'stays'
end
for _, what in ipairs(leads) do
  if string.sub(what, 1, 1) ~= '@' then
    return 'stays'
  end
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return 'waits'
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[5])
for i = 7, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
if facts[3] then
  leads[#leads + 1] = '#' .. facts[3]
end
if #leads == 0 then
  return 'gone'
end
-- It may have gone before, with other leads.
leads[#leads + 1] = redis.call('HGET', KEYS[6], ARGV[4]) or nil
redis.call('HSET', KEYS[6], ARGV[4], table.concat(leads, ' '))
return 'led'
