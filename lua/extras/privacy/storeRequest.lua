#!lua flags=allow-oom
-- Stores the request of a compliance webhook, once per webhook id.
--
-- KEYS[1] open requests   KEYS[2] ids of recent webhooks
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] digest of the webhook's id
-- ARGV[3] seconds for which the id is remembered
-- ARGV[4] the request, JSON; empty if there is nothing to do
--
-- Returns 1; 0 and nothing was done if the webhook was stored before.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', math.floor(now / 1000))
if redis.call('ZADD', KEYS[2], 'NX', math.floor(now / 1000) + ARGV[3], ARGV[2]) == 0 then
  return 0
end
if ARGV[4] ~= '' then
  local number = redis.call('HINCRBY', KEYS[1], '#', 1)
  redis.call('HSET', KEYS[1], number, ARGV[4])
end
return 1
