-- Writes what is remembered of an order.
--
-- KEYS[1] order
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] seconds for which it is remembered
-- ARGV[3] NX: unless there is a note; XX: in place of the one that is there
-- ARGV[4] the note
--
-- Returns the note as it is now.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

redis.call('SET', KEYS[1], ARGV[4], ARGV[3], 'EX', ARGV[2])
return redis.call('GET', KEYS[1]) or ARGV[4]
