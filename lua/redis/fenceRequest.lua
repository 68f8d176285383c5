-- Fences an operation at a profile, so that it can be done at another.
-- KEYS[1..] its records, one per part
-- ARGV[1] deadline   ARGV[2] TTL, seconds
-- Returns the records; `-`: not done, and never will be.
-- Errors: EXPIRED -1.

-- @include deadline

local records = {}
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], '-', 'EX', ARGV[2], 'NX')
  records[i] = redis.call('GET', KEYS[i])
end
return records
