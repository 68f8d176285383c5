-- ARGV[4..6] stream, its state, high-water mark in bytes
-- @include codes
-- @include stream
local space = space_in(ARGV[4], ARGV[5], ARGV[6])
if not space then
  return NO_STREAM
end
