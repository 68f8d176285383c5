-- Writes what is known of a visitor into the profile.
--
-- KEYS[1] profile   KEYS[2] visits of the profile (a string naming its heir once merged away)
--
-- ARGV[1] now, ISO 8601
-- ARGV[2], ARGV[3], ... field, value, ...
--
-- Returns 1, or the heir's id (string) where the profile was merged away; then nothing was done.

local visits = redis.pcall('GET', KEYS[2])
if type(visits) == 'string' then
  return visits
end
redis.call('HSETNX', KEYS[1], 'createdAt', ARGV[1])
redis.call('HSET', KEYS[1], 'updatedAt', unpack(ARGV))
return 1
