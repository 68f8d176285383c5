-- Records the profile at which an operation will be done next, by compare-and-set.
--
-- KEYS[1] request record
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] id of the operation
-- ARGV[3] its expected places
-- ARGV[4] its new places
--
-- Returns its present places; empty if there is no record.
-- Errors: EXPIRED -1; nothing was done.

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
