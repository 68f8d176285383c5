#!lua flags=allow-oom
-- Last step of a merge: the target has everything, and so has a replica of its master.
--
-- KEYS[1] identity whose default profile it is   KEYS[2] the merged profile   KEYS[3..6] its journals
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the target, `<profile> <generation> <nonce>`
-- ARGV[3] the guest's link before, `<profile> <generation> !<nonce>`   ARGV[4] its link from now on
--
-- Returns 1; 0 and nothing was done, where it was finished before.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[2], 'target') ~= '!' .. ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[2], 'target', ARGV[2])
if redis.call('HGET', KEYS[1], '') == ARGV[3] then
  redis.call('HSET', KEYS[1], '', ARGV[4])
end
for i = 3, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return 1
