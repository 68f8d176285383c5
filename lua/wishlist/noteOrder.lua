-- Writes the note of an order.
--
-- KEYS[1] order
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] TTL, seconds
-- ARGV[3] NX: only if there is no note; XX: only if there is one
-- ARGV[4] the note
--
-- Returns the present note.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

redis.call('SET', KEYS[1], ARGV[4], ARGV[3], 'EX', ARGV[2])
return redis.call('GET', KEYS[1]) or ARGV[4]
