#!lua flags=allow-oom
-- Forgets erasures that are done, unless they were written down again meanwhile.
--
-- KEYS[1] erasures
--
-- ARGV[1], ARGV[2], ... profile, what was written down for it, ...
--
-- Returns 1.
-- Errors: none.

for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return 1
