-- What request-begin and request-begin-erasure do.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('HMGET', KEYS[1], 'id', 'at', 'request', 'customer', 'places', 'answer')
end
redis.call(
  'HSET', KEYS[1], 'id', ARGV[3], 'at', ARGV[4], 'request', ARGV[5], 'customer', ARGV[6], 'places', ARGV[7]
)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
