#!lua flags=allow-oom
-- Stores a compliance webhook's request once.
-- KEYS[1..2] open requests, recent webhooks
-- ARGV[1] deadline   ARGV[2] digest of the webhook   ARGV[3] its TTL, seconds   ARGV[4] request as JSON, or empty
-- Returns 1; 0 if the webhook was stored before.
-- Errors: EXPIRED.

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
