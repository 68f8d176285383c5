-- Records a request under its idempotency key, unless there is a record.
-- KEYS[1] record
-- ARGV[1] deadline   ARGV[2] TTL, seconds   ARGV[3] operation id   ARGV[4] time, milliseconds since 1970
-- ARGV[5] fingerprint; empty if it can't differ   ARGV[6] keyed digest of its customer, or empty
-- ARGV[7] profiles at which the request may have been done, separated by spaces, the latest last
-- Returns 1 for a new record, or {id, at, fingerprint, customer, locations, answer or nil} of the existing one.
-- Errors: EXPIRED -1.

-- @include deadline

if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('HMGET', KEYS[1], 'id', 'at', 'request', 'customer', 'locations', 'answer')
end
redis.call(
  'HSET', KEYS[1], 'id', ARGV[3], 'at', ARGV[4], 'request', ARGV[5], 'customer', ARGV[6], 'locations', ARGV[7]
)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
