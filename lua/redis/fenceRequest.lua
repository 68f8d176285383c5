-- Fences an operation at one profile, so that it can be done at another: returns what was done, and prevents the rest.
--
-- KEYS[1..]  records of the operation at this profile, one for each of its parts
--
-- ARGV[1]    deadline, in milliseconds of this server's clock
-- ARGV[2]    TTL of the records, seconds
--
-- Returns the list of records; `-`: the part was not done, and can't be any more.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local records = {}
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], '-', 'EX', ARGV[2], 'NX')
  records[i] = redis.call('GET', KEYS[i])
end
return records
