#!lua flags=no-writes
-- Serializes keys of one slot atomically, for a backup.
--
-- KEYS[1..] the keys
--
-- Returns for each key its expiry in milliseconds since 1970 (-1: none, -2: no such key), and DUMP's payload.
-- Errors: none.

local all = {}
for i = 1, #KEYS do
  all[#all + 1] = redis.call('PEXPIRETIME', KEYS[i])
  all[#all + 1] = redis.call('DUMP', KEYS[i])
end
return all
