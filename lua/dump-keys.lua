#!lua flags=no-writes
-- Serializes keys of one slot at one moment, for a backup.
--
-- KEYS[1..] the keys
--
-- Returns for each key the moment at which it ends, in milliseconds since 1970, -1: never, -2: there is no such key; and DUMP's
-- payload.
-- Errors: none.

local all = {}
for i = 1, #KEYS do
  all[#all + 1] = redis.call('PEXPIRETIME', KEYS[i])
  all[#all + 1] = redis.call('DUMP', KEYS[i])
end
return all
