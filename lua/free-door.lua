#!lua flags=allow-oom
-- Unlinks an identity from a profile that is erased: it is unknown from now on. Where its default profile has become
-- another customer's (a shared device), it gets a fresh profile instead, which it owns itself: it never reads what is
-- not its own.
--
-- KEYS[1] its door   KEYS[2] its own profile   KEYS[3] the fresh profile   KEYS[4] merged: what came to the fresh profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the identity, `s:<session>` or `c:<customer>`
-- ARGV[3] its field as the sender knows it, `<room> <move>`
-- ARGV[4] its own profile's id
-- ARGV[5] the fresh profile's id, in the same bucket
--
-- Returns 1, or 0 where it has another field; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[1], '') ~= ARGV[3] then
  return 0
end
local room, move = string.match(ARGV[3], '^(%S+) (%d+)$')
local facts = redis.call('HMGET', KEYS[2], 'heir', 'owner')
if room ~= ARGV[4] and (facts[1] or facts[2]) then
  redis.call('HSET', KEYS[3], 'owner', ARGV[2])
  redis.call('HSET', KEYS[4], ARGV[2], '')
  redis.call('HSET', KEYS[1], '', ARGV[5] .. ' ' .. string.format('%.0f', move + 1))
else
  redis.call('DEL', KEYS[1])
end
return 1
