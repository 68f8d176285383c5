-- Takes events out of a profile's outbox: the stream has them.
--
-- KEYS[1] visits of the profile (a string naming its heir once merged away)   KEYS[2] outbox of the profile
--
-- ARGV[1..] event ids
--
-- Returns 1, or the heir's id (string) where the profile was merged away, and its outbox with it; then
-- nothing was done.

local heir = redis.pcall('GET', KEYS[1])
if type(heir) == 'string' then
  return heir
end
for i = 1, #ARGV do
  redis.call('HDEL', KEYS[2], ARGV[i])
end
return 1
