#!lua flags=allow-oom
-- Ends a merge whose data the customer has completely. The first call keeps the frozen data for some minutes after
-- `mergedAt`, because a failover may lose the customer's copy. The last call removes them.
-- KEYS[1..5] session's counts, profile, items, members, frozen counts
-- ARGV[1] deadline
-- ARGV[2] link without its state: `<customer's profile> <link id>`
-- ARGV[3] TTL of the frozen data, ms; 0 removes them
-- Returns 1; 0 if the session's target is another.
-- Errors: EXPIRED.

-- @include deadline

if redis.call('HGET', KEYS[2], 'target') ~= ARGV[2] then
  return 0
elseif redis.call('HGET', KEYS[1], '') == ARGV[2] .. ' merging' then
  redis.call('HSET', KEYS[1], '', ARGV[2] .. ' merged')
end
if ARGV[3] == '0' then
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  redis.call('HSET', KEYS[2], 'target', ARGV[2])
else
  redis.call('HSET', KEYS[2], 'mergedAt', string.format('%.0f', now))
  for i = 3, 5 do
    redis.call('PEXPIRE', KEYS[i], ARGV[3])
  end
end
return 1
