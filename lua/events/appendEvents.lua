#!lua flags=allow-oom
-- Appends lines, also at maxmemory, because an erasure may have to finish a merge, which appends an event.
-- KEYS[1..3] sender channel, stream, its state
-- ARGV[1..3] see includes/senderChannel.lua
-- ARGV[4] high-water mark in bytes   ARGV[5] number of lines   ARGV[6] lines
-- Returns 1.
-- Errors: EXPIRED, SUPERSEDED, FULL.

-- @include codes
local sender_channel = KEYS[1]
-- @include senderChannel
-- @include stream

local space = space_in(KEYS[2], KEYS[3], ARGV[4])
if space and #ARGV[6] > space then
  return FULL
end

append(KEYS[2], KEYS[3], ARGV[5], ARGV[6])
return remembered(1)
