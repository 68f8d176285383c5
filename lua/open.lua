-- Opens a deployment: makes what is drawn once, and answers how things stand.
--
-- KEYS[1] meta
--
-- ARGV[1] schema version of the keys, as this program knows it
-- ARGV[2] a fresh salt, hexadecimal; taken only where there is none
-- ARGV[3] seconds for which a guest stays after its last write, 0: for ever; empty from a process that does not know it
--
-- Returns {schema, salt} as they now stand: they are what the first start made.

local meta = KEYS[1]
redis.call('HSETNX', meta, 'schema', ARGV[1])
redis.call('HSETNX', meta, 'salt', ARGV[2])
if ARGV[3] ~= '' then
  redis.call('HSET', meta, 'guestsS', ARGV[3])
end
return redis.call('HMGET', meta, 'schema', 'salt')
