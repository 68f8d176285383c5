-- Leads an address to a profile, or no longer. It leads to the latest profiles only.
--
-- KEYS[1] index of the address
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] profile   ARGV[3] profiles that it leads to at most; 0: it leads to this one no longer
--
-- Returns how many earlier profiles it leads to no longer, because there were too many.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if ARGV[3] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[2])
  return 0
end
redis.call('ZADD', KEYS[1], now, ARGV[2])
return redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
