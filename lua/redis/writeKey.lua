-- Runs a write command before a deadline.
-- KEYS[1] the command's key
-- ARGV[1..2] deadline, command   ARGV[3..] arguments after the key
-- Returns the command's reply.
-- Errors: EXPIRED -1.

-- @include deadline

return redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))
