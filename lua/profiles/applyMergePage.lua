#!lua flags=allow-oom
-- Second step of a merge, for one page of a journal: adds it to the target. What was added is noted beside the target, so that a
-- page that comes again adds nothing. Nor does one of a merge that the target has noted as complete (join.lua). Counts are added;
-- of two items for one product and variant the target's stays; facts that the target's profile does not have it gets.
--
-- KEYS[1] the target's profile   KEYS[2] what is added to: counts, items, profile or members of the target
-- KEYS[3] what was added from this profile so far   KEYS[4] the target's members
--
-- ARGV[1]   deadline, in milliseconds of this server's clock
-- ARGV[2]   the target's generation   ARGV[3] the profile that is merged
-- ARGV[4]   letter of the kind, for the notes
-- ARGV[5]   seconds for which it is noted what was added   ARGV[6] nonce of the merge
-- ARGV[7]   `added`: numbers are added up; `united`: of two values the target's stays
-- ARGV[8]   field of the target's profile that says how many bytes the values have; empty: none
-- ARGV[9..] field, value, field, value, ...
--
-- Returns 1; 0, and nothing was done, where the target is gone.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[2] then
  return 0
end
if redis.call('HSETNX', KEYS[4], ARGV[3], '') == 0 and redis.call('HGET', KEYS[4], ARGV[3]) == ARGV[6] then
  return 1
end
local bytes = 0
for i = 9, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  local note = ARGV[4] .. field
  if redis.call('HSETNX', KEYS[3], note, 1) == 0 then
    -- added before
  elseif ARGV[7] == 'added' then
    redis.call('HINCRBY', KEYS[2], field, value)
  elseif redis.call('HSETNX', KEYS[2], field, value) == 1 then
    bytes = bytes + #value
  end
end
if ARGV[8] ~= '' and redis.call('HEXISTS', KEYS[1], ARGV[8]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[8], bytes)
end
redis.call('EXPIRE', KEYS[3], ARGV[5])
return 1
