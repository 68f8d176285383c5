-- Brings one identity from the keys of schema 1 to those of schema 2 (doors and rooms). There its field in `ids` was a
-- profile's id alone, the visits of a profile were one hash wherever its identities came from, or a string that named
-- the heir once it was merged away, and notes told where sessions had gone.
--
-- KEYS[1] ids of its bucket   KEYS[2] visits of its own profile, from now on its door   KEYS[3] room of that profile
-- KEYS[4] its own profile     KEYS[5] the notes of that profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the identity, `s:<session>` or `c:<customer>`
-- ARGV[3] its own profile's id
-- ARGV[4] its field as it was found
-- ARGV[5] the customer, where the identity is one; else empty
-- ARGV[6] `!` where its own profile's merge has not given anything yet, else empty
--
-- Returns 1 where this call did it, 0 where its field is another one; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[4] then
  return 0
end

local kind = redis.call('TYPE', KEYS[2]).ok
local is_away = ARGV[4] ~= ARGV[3] or ARGV[5] ~= '' or redis.call('HEXISTS', KEYS[4], 'owner') == 1
if kind == 'string' then
  is_away = true
  local heir = string.gsub(redis.call('GET', KEYS[2]), '^!', '')
  redis.call('HSET', KEYS[4], 'heir', ARGV[6] .. heir, 'nonce', 'schema-1')
elseif is_away and kind == 'hash' then
  redis.call('RENAME', KEYS[2], KEYS[3])
end
if is_away then
  redis.call('SET', KEYS[2], '')
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4] .. ' 1')
  if ARGV[5] ~= '' then
    redis.call('HSETNX', KEYS[4], 'owner', ARGV[5])
  end
else
  redis.call('HSET', KEYS[1], ARGV[2], '.')
end
redis.call('DEL', KEYS[5])
return 1
