-- Writes what is known of a visitor into the profile.
--
-- KEYS[1] profile   KEYS[2] ids of its bucket   KEYS[3] the door of its maker
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its maker, `s:<session>` or `c:<customer>`; empty where the visitor is not
-- ARGV[3] now, ISO 8601
-- ARGV[4], ARGV[5], ... field, value, ...
--
-- Returns 1; 0 and nothing was done, where it is no room, and its maker is not at home: the visitor was erased. Or the
-- heir's id (string) where the profile was merged away, `@` where it is being erased; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[1], 'heir', 'owner')
if facts[1] then
  return facts[1]
end
if not facts[2] then
  local field = ARGV[2] ~= '' and redis.call('HGET', KEYS[2], ARGV[2])
  if field and field ~= '.' or not field and (ARGV[2] == '' or redis.call('EXISTS', KEYS[3]) == 0) then
    return 0
  end
end
redis.call('HSETNX', KEYS[1], 'createdAt', ARGV[3])
redis.call('HSET', KEYS[1], 'updatedAt', unpack(ARGV, 3))
return 1
