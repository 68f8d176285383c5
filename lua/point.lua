-- Points an identity to a profile, unless somebody else was faster.
--
-- KEYS[1] ids of the identity's bucket   KEYS[2] visits of its own profile, which it has where these are there
--                                             and no other profile is named (see visits.lua)
--
-- ARGV[1] the identity, `s:<session>` or `c:<customer>`
-- ARGV[2] the profile that it has as far as the sender knows; empty for none
-- ARGV[3] the profile that it shall have
-- ARGV[4] its own profile
--
-- Returns 1 where it has that profile now (again, too), 0 where it has a third one; then nothing was done.

local current = redis.call('HGET', KEYS[1], ARGV[1])
if current == ARGV[3] then
  return 1
end
if (current or (redis.call('EXISTS', KEYS[2]) == 1 and ARGV[4]) or '') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
