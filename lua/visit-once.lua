-- Counts one visit under an operation's id: the same id again answers as the first time and counts nothing.
--
-- KEYS[1] hash that may name another profile for the identity (as in visits.lua)
-- KEYS[2] visits of the profile (hash; a string naming its heir once merged away)
-- KEYS[3] record of this operation at this profile
--
-- ARGV[1] the identity, `s:<session>` or `c:<customer>`
-- ARGV[2] the profile that the sender expects
-- ARGV[3] product handle
-- ARGV[4] seconds for which the operation is remembered
--
-- Returns the count after this visit (integer), or the id of the profile to ask instead (string); then
-- nothing was done.

local count = redis.call('GET', KEYS[3])
if count then
  return tonumber(count)
end
local named = redis.call('HGET', KEYS[1], ARGV[1])
if named and named ~= ARGV[2] then
  return named
end
local visits = redis.pcall('GET', KEYS[2])
if type(visits) == 'string' then
  return visits
end
count = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
redis.call('SET', KEYS[3], count, 'EX', ARGV[4])
return count
