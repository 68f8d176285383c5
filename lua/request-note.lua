-- Notes at a profile that a request record names it, so that an erasure of the profile finds the record.
--
-- KEYS[1] requests of the profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] seconds for which the record is remembered
-- ARGV[3] digest of the request
--
-- Returns 1.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', math.floor(now / 1000))
redis.call('ZADD', KEYS[1], math.floor(now / 1000) + ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
