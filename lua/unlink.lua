#!lua flags=allow-oom
-- Takes away an identity's link to a profile that is gone: the identity is unknown from now on. Where its default profile is
-- another visitor's (owned by a customer, or merged into one), it gets a fresh profile of its own instead.
--
-- KEYS[1] identity   KEYS[2] its default profile   KEYS[3] the fresh profile   KEYS[4] members of that
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the link as the sender knows it
-- ARGV[3] the identity   ARGV[4] the fresh profile's generation   ARGV[5] link to the fresh profile
--
-- Returns 1; 0 and nothing was done, where it has another link.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[1], '') ~= ARGV[2] then
  return 0
end
local facts = redis.call('HMGET', KEYS[2], 'owner', 'target')
if facts[1] or facts[2] then
  redis.call('HSET', KEYS[3], 'owner', ARGV[3], 'generation', ARGV[4])
  redis.call('HSET', KEYS[4], ARGV[3], '')
  redis.call('HSET', KEYS[1], '', ARGV[5])
else
  redis.call('DEL', KEYS[1])
end
return 1
