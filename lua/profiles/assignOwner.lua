-- Turns a guest's or new profile into a linked one, which doesn't expire, and links the identity to it.
-- KEYS[1..4] identity, counts, profile, members   KEYS[5] erasure record of the generation
-- KEYS[6..] the guest's counts, and all other keys that expire with it
-- ARGV[1..3] deadline, generation, new link   ARGV[4] owner, `c:<customer>`
-- ARGV[5] the identity's link as a guest, or empty   ARGV[6] the identity as a member, unless it is the owner
-- Returns ARGV[3] if the profile now has this generation, even if an earlier try set it and the identity was linked
--   elsewhere since. Otherwise changes nothing, and returns the identity's other link. If there is none, returns empty:
--   the generation was erased before this retry, or the profile is another visitor's.
-- Errors: EXPIRED -1.

-- @include deadline

local facts = redis.call('HMGET', KEYS[3], 'generation', 'target')
if facts[1] == ARGV[2] then
  return ARGV[3]
end
local link = redis.call('HGET', KEYS[1], '')
if link and link ~= ARGV[5] then
  return link ~= ARGV[3] and link or ''
elseif facts[1] or facts[2] or redis.call('EXISTS', KEYS[5]) == 1 then
  return ''
end
if redis.call('EXISTS', KEYS[6]) == 1 then
  redis.call('RENAME', KEYS[6], KEYS[2])
end
redis.call('HDEL', KEYS[3], 'registered')
redis.call('HSET', KEYS[3], 'owner', ARGV[4], 'generation', ARGV[2])
if ARGV[6] then
  redis.call('HSET', KEYS[4], ARGV[6], '')
end
redis.call('HSET', KEYS[1], '', ARGV[3])
for i = 1, #KEYS do
  if i ~= 5 then
    redis.call('PERSIST', KEYS[i])
  end
end
return ARGV[3]
