-- Compare-and-set of the locations in an operation's record.
-- KEYS[1] record
-- ARGV[1..2] deadline, operation id   ARGV[3..4] expected and new locations
-- Returns the present locations; empty if there is no record of this operation.
-- Errors: EXPIRED -1.

-- @include deadline

local record = redis.call('HMGET', KEYS[1], 'id', 'locations')
if record[1] ~= ARGV[2] then
  return ''
end
if record[2] ~= ARGV[3] then
  return record[2]
end
redis.call('HSET', KEYS[1], 'locations', ARGV[4])
return ARGV[4]
