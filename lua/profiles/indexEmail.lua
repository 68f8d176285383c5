-- Adds a profile to the index of an e-mail address, or removes it. The index keeps only the latest profiles.
--
-- KEYS[1] index of the address
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] profile   ARGV[3] maximum number of profiles; 0 removes this one
--
-- Returns the number of earlier profiles that were dropped.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if ARGV[3] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[2])
  return 0
end
redis.call('ZADD', KEYS[1], now, ARGV[2])
return redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
