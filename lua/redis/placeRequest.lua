-- Records by compare-and-set where an operation will be done next.
-- KEYS[1] record
-- ARGV[1] deadline   ARGV[2] operation id   ARGV[3] expected places   ARGV[4] new places
-- Returns the present places; empty without record.
-- Errors: EXPIRED -1.

-- @include deadline

local record = redis.call('HMGET', KEYS[1], 'id', 'places')
if record[1] ~= ARGV[2] then
  return ''
end
if record[2] ~= ARGV[3] then
  return record[2]
end
redis.call('HSET', KEYS[1], 'places', ARGV[4])
return ARGV[4]
