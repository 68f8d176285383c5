-- Reads all items of a profile.
--
-- KEYS[1] visits of the profile (a string naming its heir once merged away)   KEYS[2] items of the profile
--
-- Returns the list of items as they were stored, in no order, or the heir's id (string).

local heir = redis.pcall('GET', KEYS[1])
if type(heir) == 'string' then
  return heir
end
return redis.call('HVALS', KEYS[2])
