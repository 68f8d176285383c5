-- Notes at a profile that an e-mail address was given for it, so that an erasure finds the index of addresses.
--
-- KEYS[1] profile   KEYS[2] merged: what came to it   KEYS[3] ids of its bucket   KEYS[4] the door of its maker
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] `@` and the address's keyed digest
-- ARGV[3] its maker, `s:<session>` or `c:<customer>`; empty where the visitor is not
--
-- Returns 1; 0 and nothing was done, where it is no room, and its maker is not at home: there is no such visitor (any
-- more). Or the heir's id (string) where the profile was merged away, `!` before it while the merge is under way, `@`
-- where it is being erased; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[1], 'heir', 'owner')
if facts[1] then
  return facts[1]
end
if not facts[2] then
  local field = ARGV[3] ~= '' and redis.call('HGET', KEYS[3], ARGV[3])
  if field and field ~= '.' or not field and (ARGV[3] == '' or redis.call('EXISTS', KEYS[4]) == 0) then
    return 0
  end
end
redis.call('HSETNX', KEYS[2], ARGV[2], '')
return 1
