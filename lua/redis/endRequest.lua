#!lua flags=allow-oom
-- Records the answer of a request, or forgets a refused request. Runs at maxmemory, too: a completed operation must be answered.
--
-- KEYS[1] request record
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] id of the operation
-- ARGV[3] answer; empty if the request was refused: unless another try has answered, its key counts as unused
--
-- Returns the recorded answer; the first one stays. Empty if there is none.
-- Errors: EXPIRED -1; nothing was done.

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
