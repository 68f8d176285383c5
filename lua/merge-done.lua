#!lua flags=allow-oom
-- Last step of a merge: the tombstone says that the heir has everything. The journal is kept for some hours, for the
-- case that a failover makes the heir forget.
--
-- KEYS[1] profile that was merged away (the tombstone)   KEYS[2..5] its journal
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the heir
-- ARGV[3] nonce of the merge
-- ARGV[4] seconds for which the journal is kept
--
-- Returns 1 where this call ended the merge, 0 where it was ended before.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local tombstone = redis.call('HMGET', KEYS[1], 'heir', 'nonce')
if tombstone[1] ~= '!' .. ARGV[2] or tombstone[2] ~= ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], 'heir', ARGV[2])
for i = 2, #KEYS do
  redis.call('EXPIRE', KEYS[i], ARGV[4])
end
return 1
