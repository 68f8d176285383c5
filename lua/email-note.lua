-- Notes at a profile that an e-mail address was given for it, so that an erasure finds the index of addresses.
--
-- KEYS[1] profile   KEYS[2] merged: what came to it   KEYS[3] the door of its maker
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] `@` and the address's keyed digest
-- ARGV[3] its maker, `s:<session>` or `c:<customer>`; empty where the visitor is not
-- ARGV[4] seconds for which a guest stays after its last write; 0: for ever
--
-- Returns 1; 0 and nothing was done, where it is no room, and its maker is not at home: there is no such visitor (any
-- more). Or the heir's id (string) where the profile was merged away, `!` before it while the merge is under way, `@`
-- where it is being erased; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
-- @include retain
-- @include known

local facts = redis.call('HMGET', KEYS[1], 'heir', 'owner')
if facts[1] then
  return facts[1]
end
if not facts[2] then
  local is_home = ARGV[3] ~= '' and redis.call('HEXISTS', KEYS[3], '') == 0
  if not is_home or not is_known(KEYS[3], KEYS[1]) then
    return 0
  end
end
redis.call('HSETNX', KEYS[2], ARGV[2], '')
if not facts[2] then
  retain(KEYS[3], tonumber(ARGV[4]))
end
return 1
