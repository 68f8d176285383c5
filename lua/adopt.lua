-- Makes a guest's profile a customer's, unless it is another customer's already.
--
-- KEYS[1] profile   KEYS[2] visits of the profile (a string naming its heir once merged away)
-- KEYS[3] ids of the profile's bucket
--
-- ARGV[1] the customer, `c:<customer>`
-- ARGV[2] now, ISO 8601
-- ARGV[3] the profile
-- ARGV[4] the guest's session, `s:<session>`, where this is its own profile: from now on others come to it, too, who
--         may take its counts away, so its mapping is written (see visits.lua); else empty
--
-- Returns 1 where the profile is this customer's now (again, too), 0 where it is another's, or the heir's
-- id (string) where the profile was merged away; in the last two cases nothing was done.

local visits = redis.pcall('GET', KEYS[2])
if type(visits) == 'string' then
  return visits
end
if redis.call('HSETNX', KEYS[1], 'owner', ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], 'updatedAt', ARGV[2])
elseif redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
if ARGV[4] ~= '' then
  redis.call('HSETNX', KEYS[3], ARGV[4], ARGV[3])
end
return 1
