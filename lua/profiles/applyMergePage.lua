#!lua flags=allow-oom
-- Second step of a merge: adds a page of a journal to the target. Because of the notes, a repeated page adds nothing.
-- KEYS[1..2] target's profile, its hash of this kind   KEYS[3] notes: fields applied from this source
-- KEYS[4] target's members
-- ARGV[1..4] deadline, target's generation, source, kind   ARGV[5] TTL of the notes, seconds   ARGV[6] mergeId
-- ARGV[7] `added`: sums numbers; `united`: the target's value wins
-- ARGV[8] profile field that sums the bytes of values, or empty   ARGV[9..] field, value, ...
-- Returns 1; 0 if the target lacks the generation.
-- Errors: EXPIRED -1.

-- @include deadline

if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[2] then
  return 0
end
if redis.call('HSETNX', KEYS[4], ARGV[3], '') == 0 and redis.call('HGET', KEYS[4], ARGV[3]) == ARGV[6] then
  return 1 -- the merge is complete
end
local bytes = 0
for i = 9, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  local note = ARGV[4] .. field
  if redis.call('HSETNX', KEYS[3], note, 1) == 0 then
    -- An earlier try has added it.
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
