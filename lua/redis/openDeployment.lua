-- Opens a deployment, or creates it.
-- KEYS[1] meta
-- ARGV[1] schema version   ARGV[2] fresh salt   ARGV[3] guest's TTL, seconds, 0: for ever; or empty
-- Returns {schema, salt}.

local meta = KEYS[1]
redis.call('HSETNX', meta, 'schema', ARGV[1])
redis.call('HSETNX', meta, 'salt', ARGV[2])
if ARGV[3] ~= '' then
  redis.call('HSET', meta, 'guestsS', ARGV[3])
end
return redis.call('HMGET', meta, 'schema', 'salt')
