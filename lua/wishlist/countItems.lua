#!lua flags=no-writes
-- Counts the items of a wishlist.
-- KEYS[1..2] profile, items   KEYS[3] identity to check, if any
-- ARGV[1..2] link, generation: see includes/redirect.lua
-- Returns the number of items, or a redirect.

-- @include not-here
-- @include gone
-- @include redirect

return redirect(KEYS[3] or '', ARGV[1], KEYS[1], ARGV[2]) or redis.call('HLEN', KEYS[2])
