#!lua flags=allow-oom
-- Compare-and-set of a string, which keeps its TTL. Runs at maxmemory, because the request's operation is done.
-- KEYS[1] string
-- ARGV[1] deadline
-- ARGV[2] expected beginning
-- ARGV[3] new value; empty to delete it
-- Returns the value afterwards; empty if there is none.
-- Errors: EXPIRED.

-- @include deadline

local is = redis.call('GET', KEYS[1])
if not is or string.sub(is, 1, #ARGV[2]) ~= ARGV[2] then
  return is or ''
elseif ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[3], 'KEEPTTL')
end
return ARGV[3]
