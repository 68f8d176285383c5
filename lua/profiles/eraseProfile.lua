#!lua flags=allow-oom
-- Erases a linked profile. Its members become leftovers until nothing leads to it. The erasure record refuses late
-- writes.
-- KEYS[1..2] profile, members   KEYS[3] leftovers, whose empty field is the time in milliseconds
-- KEYS[4] erasure record   KEYS[5..] other keys
-- ARGV[1..2] deadline, generation   ARGV[3] TTL of the record, seconds
-- Returns 1; 0 if there is no such profile.
-- Errors: EXPIRED -1.

-- @include deadline

local facts = redis.call('HMGET', KEYS[1], 'generation', 'owner', 'share')
if facts[1] ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[2], facts[2], '')
if facts[3] then
  redis.call('HSET', KEYS[2], '#' .. facts[3], '')
end
redis.call('HSET', KEYS[2], '', now)
redis.call('RENAME', KEYS[2], KEYS[3])
redis.call('UNLINK', KEYS[1])
for i = 5, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
redis.call('SET', KEYS[4], '', 'EX', ARGV[3])
return 1
