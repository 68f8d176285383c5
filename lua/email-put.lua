-- Indexes profiles of an e-mail address, or forgets them.
--
-- KEYS[1] index of the address
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] `put`, and the rest is profile, the identity that made it or empty, ...; `forget`, and it is profile, ...
--
-- Returns 1.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if ARGV[2] == 'put' then
  redis.call('HSET', KEYS[1], unpack(ARGV, 3))
else
  redis.call('HDEL', KEYS[1], unpack(ARGV, 3))
end
return 1
