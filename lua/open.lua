-- Opens a deployment: makes what is drawn once, and answers how things stand.
--
-- KEYS[1] meta
--
-- ARGV[1] schema version of the keys, as this program knows it
-- ARGV[2] bucket count wanted
-- ARGV[3] event shards wanted
-- ARGV[4] a fresh salt, hexadecimal; taken only where there is none
--
-- Returns {schema, buckets, shards, salt} as they now stand: schema, buckets and salt are what the
-- first start made, shards the largest number ever wanted (a shard once used must go on being flushed).

local meta = KEYS[1]
redis.call('HSETNX', meta, 'schema', ARGV[1])
redis.call('HSETNX', meta, 'buckets', ARGV[2])
redis.call('HSETNX', meta, 'salt', ARGV[4])
local shards = tonumber(redis.call('HGET', meta, 'shards') or 0)
if tonumber(ARGV[3]) > shards then
  redis.call('HSET', meta, 'shards', ARGV[3])
end
return redis.call('HMGET', meta, 'schema', 'buckets', 'shards', 'salt')
