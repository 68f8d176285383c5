-- Erases an identity that is at home, with everything that it has, in one step: its keys are in one slot.
--
-- KEYS[1] its door   KEYS[2] its own profile   KEYS[3] what came to that   KEYS[4..] whatever else there may be of it
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] what must have come to it, else nothing is done: `@` and the digest of the address by which it was found. Empty
--         where it was not. (Its profile id may be that of one who came back since, and gave no address.)
--
-- Returns {1 where it was known, else 0, its share code or empty}, or `@<field>` (see visits.lua), and nothing was done,
-- where it is elsewhere.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
-- @include known

local field = redis.call('HGET', KEYS[1], '')
if field then
  return '@' .. field
end
if ARGV[2] ~= '' and redis.call('HEXISTS', KEYS[3], ARGV[2]) == 0 then
  return { 0, '' }
end
local was_known = is_known(KEYS[1], KEYS[2]) and 1 or 0
local facts = redis.call('HMGET', KEYS[2], 'owner', 'heir', 'share')
redis.call('UNLINK', KEYS[1])
-- (With an owner or an heir it is a room of others, which only a failover brings about.)
if facts[1] or facts[2] then
  return { was_known, '' }
end
for i = 2, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return { was_known, facts[3] or '' }
