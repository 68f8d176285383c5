#!lua flags=no-writes
-- Answers like `peek` of countVisits.lua, also at maxmemory.
-- KEYS[1..2] identity, default profile
-- Returns the link; `.` if it has none; `!` if the default profile is another visitor's; empty if the identity is
--   unknown.

-- @include registered
-- @include not-here
-- @include gone

return redis.call('HGET', KEYS[1], '') or gone(KEYS[2], '') or is_registered(KEYS[1], KEYS[2]) and '.' or ''
