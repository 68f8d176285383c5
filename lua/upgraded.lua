-- Says that all keys are those of this schema.
--
-- KEYS[1] meta
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] schema version
--
-- Returns 1.
-- Errors: EXPIRED -1; nothing was done.

local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 > tonumber(ARGV[1]) then
  return -1
end
redis.call('HSET', KEYS[1], 'schema', ARGV[2])
return 1
