#!lua flags=no-writes
-- Reads an identity's link as `peek` of countVisits.lua does, also at maxmemory.
-- KEYS[1] identity   KEYS[2] its default profile
-- Returns the link; `.` if none; `!` if its default profile is another visitor's; empty if it does not exist.

-- @include known
-- @include not-here
-- @include gone

return redis.call('HGET', KEYS[1], '') or gone(KEYS[2], '') or is_known(KEYS[1], KEYS[2]) and '.' or ''
