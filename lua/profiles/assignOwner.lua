-- Gives a profile of an identity an owner, and the identity a link to it: what a guest has counted becomes the profile's, and what
-- it has does not end any more. An unknown identity becomes known.
--
-- KEYS[1] identity   KEYS[2] counts of the profile   KEYS[3] the profile   KEYS[4] its members
-- KEYS[5] whether this generation was erased   KEYS[6] what a guest has counted there: of its default profile the identity
-- KEYS[7..] what else the guest has
--
-- ARGV[1]   deadline, in milliseconds of this server's clock
-- ARGV[2]   the profile's generation   ARGV[3] the link, `<profile> <generation>`
-- ARGV[4]   the owner, `c:<customer>`   ARGV[5] what leads the identity there as a guest, or empty
-- ARGV[6]   a member: the identity, where the owner is another one (the owner is one by itself)
--
-- Returns the link of ARGV[3] where the profile has this generation now, also where the identity has gone elsewhere since; else
-- the link that the identity has. Empty, and nothing was done, where this generation was erased (a try that is late), or where the
-- profile is another visitor's.
-- Errors: EXPIRED -1; nothing was done.

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
redis.call('HDEL', KEYS[3], 'known')
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
