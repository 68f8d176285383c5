#!lua flags=allow-oom
-- Appends a batch of lines to a stream, unless it is at its high-water mark. Runs at maxmemory, too: an erasure may have to finish a
-- merge, which is recorded for analysts.
--
-- KEYS[1] lane   KEYS[2] stream   KEYS[3] its state   (all of one hash tag)
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] high-water mark in bytes
-- ARGV[5] number of lines
-- ARGV[6] the lines, each with its newline
--
-- Returns 1. The same batch sent again returns 1, however late, and appends nothing.
-- Errors: EXPIRED -1, SUPERSEDED -2, FULL -3 (the stream is at its high-water mark); nothing was done.

local lane = KEYS[1]
-- @include lane
-- @include stream

local space = space_in(KEYS[2], KEYS[3], ARGV[4])
if space and #ARGV[6] > space then
  return -3
end

append(KEYS[2], KEYS[3], ARGV[5], ARGV[6])
return remembered(1)
