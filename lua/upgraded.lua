-- Says that all keys are those of this schema.
--
-- KEYS[1] meta
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] schema version
--
-- Returns 1.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
redis.call('HSET', KEYS[1], 'schema', ARGV[2])
return 1
