-- Gives an identity's default profile an owner, and the identity a link to it: its counts become the profile's, and what a
-- guest has does not end any more. An unknown identity becomes known.
--
-- KEYS[1] identity   KEYS[2] counts of its default profile   KEYS[3] that profile   KEYS[4] its members
-- KEYS[5] whether this generation was erased   KEYS[6..] what else the guest has
--
-- ARGV[1]   deadline, in milliseconds of this server's clock
-- ARGV[2]   the profile's generation   ARGV[3] the link, `<profile> <generation>`
-- ARGV[4]   the owner, `c:<customer>`
-- ARGV[5]   a member: the identity, where the owner is another one (the owner is one by itself)
--
-- Returns the link of ARGV[3] where the profile has this generation now, also where the identity has gone elsewhere since; else
-- the link that the identity has. Empty, and nothing was done, where this generation was erased: a try that is late.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[3], 'generation') == ARGV[2] then
  return ARGV[3]
end
local link = redis.call('HGET', KEYS[1], '')
if link then
  return link
elseif redis.call('EXISTS', KEYS[5]) == 1 then
  return ''
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('RENAME', KEYS[1], KEYS[2])
end
redis.call('HDEL', KEYS[3], 'known')
redis.call('HSET', KEYS[3], 'owner', ARGV[4], 'generation', ARGV[2])
if ARGV[5] then
  redis.call('HSET', KEYS[4], ARGV[5], '')
end
redis.call('HSET', KEYS[1], '', ARGV[3])
for i = 1, #KEYS do
  if i ~= 5 then
    redis.call('PERSIST', KEYS[i])
  end
end
return ARGV[3]
