-- Adds profiles to the indexes of products that they are about to save, in one batch. An index entry precedes its item.
--
-- KEYS[1] lane. The keys below are not declared: a batch spans the slots of its node.
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] two lines for each entry: the index; the profile
--
-- An index has for each profile the time of its last entry, in milliseconds of this server's clock.
--
-- Returns a flat list {i, `~`, ...} of failed entries: their index is not at this node, or its slot is migrating.
-- Errors: EXPIRED -1, SUPERSEDED -2 (the lane has a later batch); nothing was done.

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
