#!lua flags=allow-oom
-- Removes finished erasures, unless they were queued again.
-- KEYS[1] erasures
-- ARGV[1], ARGV[2], ... profile or identity, expected value, ...
-- Returns 1.

for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return 1
