-- Compare-and-set of an operation's locations.
-- KEYS[1] record
-- ARGV[1..4] deadline, operation id, expected, new
-- Returns the present ones; empty if there is no record.
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
