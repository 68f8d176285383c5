-- Writes one of the shop's settings.
-- KEYS[1] settings
-- ARGV[1] deadline   ARGV[2] name   ARGV[3] value
-- Returns 1.
-- Errors: EXPIRED -1.

-- @include deadline

redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
return 1
