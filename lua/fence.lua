-- Ends the tries of an operation at one place, so that it can be done at another: answers what was done there, and
-- where nothing was, makes sure that nothing will be.
--
-- KEYS[1..]  records of the operation at this place, one for each part that it is done in
--
-- ARGV[1]    deadline, in milliseconds of this server's clock
-- ARGV[2]    seconds for which the operation is remembered
--
-- Returns a list of records as they are now: `-` where it was not done and can't be any more.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local records = {}
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], '-', 'EX', ARGV[2], 'NX')
  records[i] = redis.call('GET', KEYS[i])
end
return records
