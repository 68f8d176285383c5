#!lua flags=allow-oom
-- Removes the source of a merge whose target was erased.
-- KEYS[1] identity whose default profile is the source   KEYS[2] source   KEYS[3..6] the source's journals
-- ARGV[1..2] deadline, target   ARGV[3] target's profile and generation
-- Returns 1; 0 if the source has another target.
-- Errors: EXPIRED -1.

-- @include deadline

if redis.call('HGET', KEYS[2], 'target') ~= ARGV[2] then
  return 0
end
local link = redis.call('HGET', KEYS[1], '') or ''
if link == ARGV[3] or string.sub(link, 1, #ARGV[3] + 1) == ARGV[3] .. ' ' then
  redis.call('UNLINK', KEYS[1])
end
for i = 2, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return 1
