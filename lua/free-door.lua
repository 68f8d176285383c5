-- Takes a door away that leads to what was erased: its identity is unknown from now on. Where its own profile has become
-- another customer's (a shared device), it goes back there.
--
-- KEYS[1] ids of its bucket   KEYS[2] its door   KEYS[3] its own profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the identity, `s:<session>` or `c:<customer>`
-- ARGV[3] its field as the sender knows it, `<room> <move>`
-- ARGV[4] its own profile's id
--
-- Returns 1, or 0 where it has another field; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then
  return 0
end
local room, move = string.match(ARGV[3], '^(%S+) (%d+)$')
local facts = redis.call('HMGET', KEYS[3], 'heir', 'owner')
if room ~= ARGV[4] and (facts[1] or facts[2]) then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4] .. ' ' .. string.format('%.0f', move + 1))
else
  redis.call('HDEL', KEYS[1], ARGV[2])
  redis.call('DEL', KEYS[2])
end
return 1
