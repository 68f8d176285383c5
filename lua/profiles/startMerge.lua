-- First step of a merge: moves a profile's hashes into journals, and notes its target.
-- KEYS[1] identity whose default profile is KEYS[2]   KEYS[2..3] profile, members   KEYS[4..] pairs of key and journal
-- ARGV[1] deadline   ARGV[2] generation, empty for a guest   ARGV[3] target, `<profile> <generation> <mergeId>`
-- ARGV[4], ARGV[5] guest's new link, identity
-- Returns the profile's target: ARGV[3], or an earlier merge's. It begins with `!` while the merge is pending.
--   Returns empty if there is no such profile, or the guest has a link.
-- Errors: EXPIRED -1.

-- @include deadline

local facts = redis.call('HMGET', KEYS[2], 'target', 'generation')
if facts[1] then
  return facts[1]
elseif ARGV[2] ~= (facts[2] or '') then
  return ''
elseif ARGV[2] == '' and (redis.call('HEXISTS', KEYS[1], '') == 1 or redis.call('EXISTS', KEYS[1], KEYS[2]) == 0) then
  return ''
end
if ARGV[2] == '' then
  redis.call('HSET', KEYS[3], ARGV[5], '')
end
for i = 4, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    redis.call('RENAME', KEYS[i], KEYS[i + 1])
    redis.call('PERSIST', KEYS[i + 1])
  end
end
redis.call('HSET', KEYS[2], 'target', '!' .. ARGV[3])
if ARGV[2] == '' then
  redis.call('HSET', KEYS[1], '', ARGV[4])
end
return '!' .. ARGV[3]
