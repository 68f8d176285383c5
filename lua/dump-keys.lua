#!lua flags=no-writes
-- Serializes keys of one slot at one moment, for a backup.
--
-- KEYS[1] the profile's members, else any key of the slot   KEYS[2..] the keys
--
-- ARGV[1] fields that the caller counted in KEYS[1]; empty: any number
--
-- Returns for each of KEYS[2..] the moment at which it ends, in milliseconds since 1970, -1: never, -2: there is no such key;
-- and DUMP's payload. An empty list if KEYS[1] has another number of fields.
-- Errors: none.

if ARGV[1] ~= '' and redis.call('HLEN', KEYS[1]) ~= tonumber(ARGV[1]) then
  return {}
end
local all = {}
for i = 2, #KEYS do
  all[#all + 1] = redis.call('PEXPIRETIME', KEYS[i])
  all[#all + 1] = redis.call('DUMP', KEYS[i])
end
return all
