#!lua flags=allow-oom
-- Third step of a merge: the heir has everything, and says so on its record, by which it is found out later whether a
-- failover forgot it.
--
-- KEYS[1] profile of the heir   KEYS[2] merged: profiles that the heir received
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the profile that was merged away
-- ARGV[3] nonce of this merge
--
-- Returns 1, or the heir's heir (string) where it was merged away itself, `@` where it is being erased, or does not
-- expect this merge (any more, see register.lua); then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local heir = redis.call('HGET', KEYS[1], 'heir')
if heir or redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  return heir or '@'
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1
