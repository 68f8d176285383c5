-- Opens a deployment: makes what is drawn once, and answers how things stand.
--
-- KEYS[1] meta
--
-- ARGV[1] schema version of the keys, as this program knows it
-- ARGV[2] event shards of a new deployment
-- ARGV[3] a fresh salt, hexadecimal; taken only where there is none
--
-- Returns {schema, salt} as they now stand: they are what the first start made.

local meta = KEYS[1]
redis.call('HSETNX', meta, 'schema', ARGV[1])
redis.call('HSETNX', meta, 'salt', ARGV[3])
redis.call('HSETNX', meta, 'shards', ARGV[2])
return redis.call('HMGET', meta, 'schema', 'salt')
