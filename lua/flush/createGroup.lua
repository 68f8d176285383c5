#!lua flags=allow-oom
-- Creates a consumer group that begins with the first entry. Runs at maxmemory, because a flush frees memory.
-- KEYS[1] stream
-- ARGV[1] consumer group
-- Returns 1; 0 if the group exists, or the stream does not: a Redis that lost its data must not be written to.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
return redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0').err and 0 or 1
