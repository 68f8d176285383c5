-- Appends one batch of event lines to a shard's stream, or refuses it at the high-water mark.
--
-- KEYS[1] lane   KEYS[2] events   KEYS[3] events:state   (all of one shard, one hash tag)
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] high-water mark: pending bytes that may not be passed
-- ARGV[5] number of events
-- ARGV[6] that many JSONEachRow lines, each ended by a newline
--
-- Returns 1. The same batch sent again returns 1, however late, and appends nothing.
-- Errors: EXPIRED -1, SUPERSEDED -2, FULL -3 (the stream is at its high-water mark); nothing was done.

-- @include lane
-- @include append

local pending = tonumber(redis.call('HGET', KEYS[3], 'bytes') or 0)
if pending + #ARGV[6] > tonumber(ARGV[4]) then
  return -3
end

append(ARGV[5], ARGV[6])
return remembered(1)
