#!lua flags=allow-oom
-- Records the answer of a request, or forgets a request that was refused. What was done is answered alike at `maxmemory`, too.
--
-- KEYS[1] request record
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] id of the operation
-- ARGV[3] answer; empty where it was refused: without an answer from another try, its key was not used then
--
-- Returns the answer that is recorded: the first one stays. Empty where it was refused and has none.
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
