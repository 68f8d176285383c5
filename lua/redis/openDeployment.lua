-- Opens a deployment; the first start makes it.
--
-- KEYS[1] meta
--
-- ARGV[1] the program's schema version
-- ARGV[2] a fresh salt, hexadecimal, for a new deployment
-- ARGV[3] TTL of a guest after its last write, seconds, 0: for ever; empty from a process without this setting
--
-- Returns the deployment's {schema, salt}.

local meta = KEYS[1]
redis.call('HSETNX', meta, 'schema', ARGV[1])
redis.call('HSETNX', meta, 'salt', ARGV[2])
if ARGV[3] ~= '' then
  redis.call('HSET', meta, 'guestsS', ARGV[3])
end
return redis.call('HMGET', meta, 'schema', 'salt')
