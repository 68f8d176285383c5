-- Records one more place where an operation may be done from now on, unless another try recorded one meanwhile.
--
-- KEYS[1] request record
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] id of the operation
-- ARGV[3] its places as the sender knows them
-- ARGV[4] its places from now on
--
-- Returns its places as they are now; empty where the record is gone.
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
