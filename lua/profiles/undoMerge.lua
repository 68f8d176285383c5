#!lua flags=allow-oom
-- Restores a profile from its journals, if the target of its merge was erased.
-- KEYS[1] identity whose default profile is KEYS[2]   KEYS[2..3] profile, members   KEYS[4..] pairs of key and journal
-- ARGV[1..2] deadline, target   ARGV[3] guest's link, empty for a linked profile   ARGV[4] guest's TTL, seconds
-- Returns 1; 0 if target or link differ.
-- Errors: EXPIRED -1.

-- @include deadline
local retention = tonumber(ARGV[4])
-- @include retain

if redis.call('HGET', KEYS[2], 'target') ~= ARGV[2] then
  return 0
elseif ARGV[3] ~= '' and redis.call('HGET', KEYS[1], '') ~= ARGV[3] then
  return 0
end
redis.call('UNLINK', KEYS[2])
if ARGV[3] ~= '' then
  redis.call('UNLINK', KEYS[1])
end
for i = 4, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i + 1]) == 1 then
    redis.call('RENAME', KEYS[i + 1], KEYS[i])
    redis.call('PERSIST', KEYS[i])
  end
end
if ARGV[3] ~= '' then
  retain(KEYS[1], GUEST_KINDS)
end
return 1
