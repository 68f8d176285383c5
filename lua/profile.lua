-- Writes what is known of a visitor into the profile.
--
-- KEYS[1] profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] now, ISO 8601
-- ARGV[3], ARGV[4], ... field, value, ...
--
-- Returns 1, or the heir's id (string) where the profile was merged away; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 > tonumber(ARGV[1]) then
  return -1
end

local heir = redis.call('HGET', KEYS[1], 'heir')
if heir then
  return heir
end
redis.call('HSETNX', KEYS[1], 'createdAt', ARGV[2])
redis.call('HSET', KEYS[1], 'updatedAt', unpack(ARGV, 2))
return 1
