#!lua flags=no-writes
-- Counts the items of a wishlist.
-- KEYS[1..2] profile, items
-- ARGV[1..2] session, link id: see includes/fence.lua
-- Returns the number of items, or an answer of includes/fence.lua.

-- @include profile-keys
-- @include not-here
-- @include fence

return fence(KEYS[1], ARGV[1], ARGV[2]) or redis.call('HLEN', KEYS[2])
