#!lua flags=allow-oom
-- Last step of a merge, once the target and its replica have everything.
-- KEYS[1] identity whose default profile is the source   KEYS[2] source   KEYS[3..6] journals
-- ARGV[1..4] deadline, target, guest's link, its new link
-- Returns 1; 0 if the merge was finished before.
-- Errors: EXPIRED -1.

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
