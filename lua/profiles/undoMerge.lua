#!lua flags=allow-oom
-- Takes a merge back whose target is gone: the profile has again what is in its journal.
--
-- KEYS[1] identity whose default profile it is   KEYS[2] the profile   KEYS[3] its members
-- KEYS[4..] each key that was moved, and its journal
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the target as the profile names it   ARGV[3] the guest's link; empty: it was a linked profile
-- ARGV[4] seconds for which a guest stays after its last write; 0: for ever
--
-- Returns 1; 0 and nothing was done, where one of the two is another one.
-- Errors: EXPIRED -1; nothing was done.

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
