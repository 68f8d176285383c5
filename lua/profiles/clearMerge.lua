#!lua flags=allow-oom
-- Removes what a merge has left of a profile whose target is erased: its journals, and the link of the guest that had it.
--
-- KEYS[1] identity whose default profile it is   KEYS[2] the profile   KEYS[3..6] its journals
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its target, as the profile names it   ARGV[3] the target's profile and generation, with which the link begins
--
-- Returns 1; 0 and nothing was done, where it has another target.
-- Errors: EXPIRED -1; nothing was done.

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
