#!lua flags=allow-oom
-- Compare-and-set of a hash's field.
-- KEYS[1] hash
-- ARGV[1..2] deadline, field
-- ARGV[3..4] expected and new value, empty for none
-- ARGV[5] maximum of fields
-- ARGV[6] 1 to remove the whole hash with the field
-- Returns 1 if the field now has the new value; 0 if it has another.
-- Errors: EXPIRED, TOO_MANY.

-- @include codes
-- @include deadline

local is = redis.call('HGET', KEYS[1], ARGV[2]) or ''
if is == ARGV[4] then
  return 1
elseif is ~= ARGV[3] then
  return 0
elseif ARGV[4] == '' and ARGV[6] == '1' then
  redis.call('UNLINK', KEYS[1])
elseif ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], ARGV[2])
elseif is == '' and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then
  return TOO_MANY
else
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
end
return 1
