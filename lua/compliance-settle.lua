#!lua flags=allow-oom
-- Changes an open request, or closes it, where it still is as the sender knows it.
--
-- KEYS[1] open requests
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its number
-- ARGV[3] what it was, JSON
-- ARGV[4] what it is, JSON; empty: it is done
--
-- Returns 1; 0 and nothing was done, where it is something else.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local is = redis.call('HGET', KEYS[1], ARGV[2]) or ''
if is == ARGV[4] then
  return 1
elseif is ~= ARGV[3] then
  return 0
elseif ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], ARGV[2])
else
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
end
return 1
