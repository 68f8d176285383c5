-- Writes what is known of a visitor into the profile.
--
-- KEYS[1] profile   KEYS[2] the door of its maker
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its maker, `s:<session>` or `c:<customer>`; empty where the visitor is not
-- ARGV[3] now, ISO 8601
-- ARGV[4] seconds for which a guest stays after its last write; 0: for ever
-- ARGV[5], ARGV[6], ... field, value, ...
--
-- Returns 1; 0 and nothing was done, where it is no room, and its maker is not at home: the visitor was erased. Or the
-- heir's id (string) where the profile was merged away, `@` where it is being erased; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
-- @include retain
-- @include known

local facts = redis.call('HMGET', KEYS[1], 'heir', 'owner')
if facts[1] then
  return facts[1]
end
if not facts[2] then
  local is_home = ARGV[2] ~= '' and redis.call('HEXISTS', KEYS[2], '') == 0
  if not is_home or not is_known(KEYS[2], KEYS[1]) then
    return 0
  end
end
redis.call('HSETNX', KEYS[1], 'createdAt', ARGV[3])
redis.call('HSET', KEYS[1], 'updatedAt', ARGV[3], unpack(ARGV, 5))
if not facts[2] then
  retain(KEYS[2], tonumber(ARGV[4]))
end
return 1
