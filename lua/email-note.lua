-- Notes at a profile that an e-mail address was given for it, so that an erasure finds the index of addresses.
--
-- KEYS[1] profile   KEYS[2] merged: what came to it
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] `@` and the address's keyed digest
--
-- Returns 1, or the heir's id (string) where the profile was merged away, `!` before it while the merge is under way, `@`
-- where it is being erased; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local heir = redis.call('HGET', KEYS[1], 'heir')
if heir then
  return heir
end
redis.call('HSETNX', KEYS[2], ARGV[2], '')
return 1
