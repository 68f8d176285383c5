#!lua flags=no-writes
-- Reads an identity's link, as `p` of visits.lua does, also while Redis is at its `maxmemory`.
--
-- KEYS[1] identity   KEYS[2] its default profile
--
-- Returns the link; `.` where it has none and is known, empty where it is unknown; `!` where it is unknown and its default profile
-- is another visitor's.

-- @include known
-- @include not-here
-- @include gone

return redis.call('HGET', KEYS[1], '') or gone(KEYS[2], '') or is_known(KEYS[1], KEYS[2]) and '.' or ''
