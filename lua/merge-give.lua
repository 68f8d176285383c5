-- Second step of a merge: adds what merge-take moved aside to the heir, unless its record says that this
-- was done already. Counts are added; of two items for one product and variant the heir's stays; what the
-- heir's profile does not know yet it learns.
--
-- KEYS[1] visits   KEYS[2] items   KEYS[3] outbox   KEYS[4] profile   KEYS[5] merged   (all of the heir)
--
-- ARGV[1]     the profile that was merged away
-- ARGV[2..6]  numbers of fields and values that follow: of visits, items, outbox, profile, merged
-- ARGV[7..]   those fields and values, in this order
--
-- Returns 1, or the heir's heir (string) where it was merged away itself; then nothing was done.

local heir = redis.pcall('GET', KEYS[1])
if type(heir) == 'string' then
  return heir
end
if redis.call('HSETNX', KEYS[5], ARGV[1], 1) == 0 then
  return 1
end
local at = 7
for kind = 1, 5 do
  local stop = at + tonumber(ARGV[kind + 1])
  while at < stop do
    if kind == 1 then
      redis.call('HINCRBY', KEYS[1], ARGV[at], ARGV[at + 1])
    else
      redis.call('HSETNX', KEYS[kind], ARGV[at], ARGV[at + 1])
    end
    at = at + 2
  end
end
return 1
