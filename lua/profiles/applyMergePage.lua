#!lua flags=allow-oom
-- Second step of a merge: adds a page of the journal to the target, and notes it there: a repeated page, or one of a
-- completed merge, adds nothing.
-- KEYS[1] target's profile   KEYS[2] its hash of the kind   KEYS[3] applied fields of this source   KEYS[4] target's
-- members
-- ARGV[1] deadline   ARGV[2] target's generation   ARGV[3] source   ARGV[4] kind   ARGV[5] TTL of the notes, seconds
-- ARGV[6] nonce   ARGV[7] `added`: sums numbers; `united`: the target's value wins
-- ARGV[8] profile field with the bytes of all values, or empty   ARGV[9..] field, value, ...
-- Returns 1; 0 if the target does not exist.
-- Errors: EXPIRED -1.

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
