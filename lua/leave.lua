-- A session leaves a profile for another one: whoever still believes it here is sent on.
--
-- KEYS[1] moved of the profile that it leaves
--
-- ARGV[1] the identity, `s:<session>`
-- ARGV[2] the profile that it goes to
--
-- Returns the profile that it goes to now: ARGV[2], or another one where somebody was faster.

redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
return redis.call('HGET', KEYS[1], ARGV[1])
