-- Writes a string, or removes keys.
-- KEYS[1] key   KEYS[2..] further keys to remove
-- ARGV[1] deadline   ARGV[2] value; empty: removes
-- Returns 1.
-- Errors: EXPIRED -1.

-- @include deadline

if ARGV[2] == '' then
  for i = 1, #KEYS do
    redis.call('UNLINK', KEYS[i])
  end
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
