#!lua flags=no-writes
-- Says where an identity is, as `p` of visits.lua does, also while Redis is at its `maxmemory`.
--
-- KEYS[1] its door   KEYS[2] its own profile
--
-- Returns its field, `.` where it is at home, empty where it is unknown.

-- @include known

return redis.call('HGET', KEYS[1], '') or is_known(KEYS[1], KEYS[2]) and '.' or ''
