#!lua flags=allow-oom
-- Records a request's answer, or forgets a refused request. Runs at maxmemory: a completed operation must be answered.
-- KEYS[1] record
-- ARGV[1] deadline   ARGV[2] operation id   ARGV[3] answer; empty: refused, so the key is unused unless another try
-- answered
-- Returns the recorded answer; the first stays.
-- Errors: EXPIRED -1.

-- @include deadline

if redis.call('HGET', KEYS[1], 'id') == ARGV[2] then
  if ARGV[3] ~= '' then
    redis.call('HSETNX', KEYS[1], 'answer', ARGV[3])
  elseif redis.call('HEXISTS', KEYS[1], 'answer') == 0 then
    redis.call('DEL', KEYS[1])
    return ''
  end
  return redis.call('HGET', KEYS[1], 'answer')
end
return ARGV[3]
