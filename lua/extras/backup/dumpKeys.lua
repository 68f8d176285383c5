#!lua flags=no-writes
-- Serializes keys of one slot atomically.
-- KEYS[1..] keys
-- Returns the PEXPIRETIME and DUMP of each key.

local all = {}
for i = 1, #KEYS do
  all[#all + 1] = redis.call('PEXPIRETIME', KEYS[i])
  all[#all + 1] = redis.call('DUMP', KEYS[i])
end
return all
