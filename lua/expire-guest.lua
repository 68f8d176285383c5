-- Lets a guest go that was not seen for long, with everything that it has, in one step: its keys are in one slot.
--
-- KEYS[1] its door   KEYS[2] its own profile   KEYS[3] its outbox
-- KEYS[4] room of its own profile   KEYS[5] what came to that room
-- KEYS[6..] whatever else there may be of it
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] seconds of a day
-- ARGV[3] first day of which guests stay
-- ARGV[4] 1 where the keys that lead to it were removed before, else 0
--
-- Returns a list with one word, and nothing was done except for `gone` and `noted`:
--   gone    nothing is left of it (its `ids` field was removed when the day was noted, see settle-guest.lua)
--   stays   it was seen, it is away, or it is no guest: its profile is a room of others, which only a failover brings about.
--           Behind it, where ARGV[4] is 1, `led` where what led to it is needed again
--   noted   it had no day, or one that is still to come; it has today's now
--   waits   events of its outbox are not in the stream yet
--   leads, its share code or empty, digests of e-mail addresses ...: their keys are to be removed first
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[2], 'owner', 'heir', 'share')
local came = redis.call('HKEYS', KEYS[5])
local stays = { 'stays' }
if ARGV[4] == '1' and (facts[1] or facts[2] or facts[3] or #came > 0) then
  stays[2] = 'led'
end
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  return stays
end
local today = math.floor(now[1] / ARGV[2])
local day = tonumber(redis.call('HGET', KEYS[1], '') or today + 1)
if day > today then
  redis.call('HSET', KEYS[1], '', today)
  return { 'noted' }
end
if day >= tonumber(ARGV[3]) or facts[1] or facts[2] or redis.call('EXISTS', KEYS[4]) == 1 then
  return stays
end
local leads = { 'leads', facts[3] or '' }
for _, what in ipairs(came) do
  if string.sub(what, 1, 1) ~= '@' then
    return stays
  end
  leads[#leads + 1] = string.sub(what, 2)
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return { 'waits' }
end
if ARGV[4] ~= '1' and (facts[3] or #came > 0) then
  return leads
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[5])
for i = 6, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return { 'gone' }
