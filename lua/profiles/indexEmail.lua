-- Adds a profile to an e-mail address's index, which keeps the latest, or removes it.
-- KEYS[1] index
-- ARGV[1..2] deadline, profile   ARGV[3] maximum profiles; 0 removes this one
-- Returns the number of dropped profiles.
-- Errors: EXPIRED -1.

-- @include deadline

if ARGV[3] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[2])
  return 0
end
redis.call('ZADD', KEYS[1], now, ARGV[2])
return redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
