-- Runs a write command before a deadline.
-- KEYS[1..] the command's keys, of one slot
-- ARGV[1] deadline
-- ARGV[2] command
-- ARGV[3..] arguments after the keys
-- Returns the command's reply.
-- Errors: EXPIRED.

-- @include deadline

local words = { ARGV[2], unpack(KEYS) }
for i = 3, #ARGV do
  words[#words + 1] = ARGV[i]
end
return redis.call(unpack(words))
