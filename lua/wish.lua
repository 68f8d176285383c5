-- Notes wishers in the indexes of what they are about to wish for: a batch of them in one call, each before its item is
-- written.
--
-- KEYS[1] lane. The keys below are not declared: a batch spans the slots of its node.
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] the wishers, each in two lines: the index; the profile
--
-- An index has, for each profile, when it was last noted: milliseconds of this server's clock.
--
-- Returns a flat list {i, `~`, ...} of those that were not noted, because their index is not at this node, or on the move.
-- Errors: EXPIRED -1, SUPERSEDED -2 (the lane is past this batch); nothing was done.

local lane = KEYS[1]
-- @include lane
-- @include not-here

local text = ARGV[4]
-- @include lines

local answers, n, i = {}, 0, 0
while at <= #text do
  i = i + 1
  local index, profile = line(), line()
  local noted = redis.pcall('HSET', index, profile, now)
  if type(noted) == 'table' then
    answers[n + 1], answers[n + 2] = i, answer_of(noted)
    n = n + 2
  end
end
return remembered(answers)
