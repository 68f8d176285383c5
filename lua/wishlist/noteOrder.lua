-- Writes an order's note.
-- KEYS[1] order
-- ARGV[1] deadline   ARGV[2] TTL, seconds   ARGV[3] NX or XX   ARGV[4] note
-- Returns the present note.
-- Errors: EXPIRED -1.

-- @include deadline

redis.call('SET', KEYS[1], ARGV[4], ARGV[3], 'EX', ARGV[2])
return redis.call('GET', KEYS[1]) or ARGV[4]
