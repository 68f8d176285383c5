-- Erases what a condemned profile has, but for what leads to the rest of its erasure.
--
-- KEYS[1] profile   KEYS[2..] keys with what it has
--
-- ARGV[1] deadline, in milliseconds of this server's clock
--
-- Returns 1, or 0 and nothing was done, where it is not condemned: it was erased before, and may be a new visitor's.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[1], 'heir') ~= '@' then
  return 0
end
for i = 2, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return 1
