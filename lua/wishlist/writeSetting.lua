-- Writes one of the shop's settings.
-- KEYS[1] settings
-- ARGV[1..3] deadline, name, value
-- Returns 1.
-- Errors: EXPIRED -1.

-- @include deadline

redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
return 1
