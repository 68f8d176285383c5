#!lua flags=allow-oom
-- Records a request's answer, also at maxmemory, because the operation is done. Deletes the record of a refused
-- request, unless another try has answered.
-- KEYS[1] record
-- ARGV[1..2] deadline, operation id   ARGV[3] answer; empty if the request was refused
-- Returns the first recorded answer; ARGV[3] if there is no record of this operation.
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
