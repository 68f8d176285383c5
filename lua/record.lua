-- Appends one batch of event lines to the stream of this node, each if its visitor still has the profile that the line
-- names. An unknown visitor becomes known.
--
-- KEYS[1] lane. The keys below are not declared: a batch spans the slots of its node.
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] events   ARGV[5] events:state   ARGV[6] high-water mark: pending bytes that may not be passed
-- ARGV[7] seconds for which a guest stays after its last write; 0: for ever
-- ARGV[8] visitors of the events, each in three lines: its door, or empty where that was asked before; where it is expected
--         at a room, its field and the room's profile, else two empty lines
-- ARGV[9] their JSONEachRow lines, one for each, ended by a newline
--
-- Returns a flat list {i, answer, i, answer, ...} of the events that were not appended: `@<field>` where the visitor is
-- elsewhere (see visits.lua), the heir's id where the room was merged away, `!` before it while the merge is under way,
-- `@` where it is being erased, `~` where a key is not at this node. All others were.
-- Errors: EXPIRED -1, SUPERSEDED -2, FULL -3 (the stream is at its high-water mark), NO_STREAM -7 (it is not at this node);
-- nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

local lane = KEYS[1]
-- @include lane
-- @include stream
-- @include retain
-- @include known
-- @include without
-- @include not-here

local space = space_in(ARGV[4], ARGV[5], ARGV[6])
if not space then
  return -7
elseif #ARGV[9] > space then
  return -3
end

local text, retention = ARGV[8], tonumber(ARGV[7])
-- @include lines

-- Where a visitor is instead, or nil.
local function elsewhere_of(door, expected, profile)
  if door ~= '' then
    local field = redis.pcall('HGET', door, '')
    if type(field) == 'table' then
      return answer_of(field)
    elseif field ~= (expected ~= '' and expected) then
      return '@' .. (field or '')
    end
  end
  if profile ~= '' then
    local facts = redis.pcall('HMGET', profile, 'heir', 'owner')
    return facts.err and answer_of(facts) or facts[1] or not facts[2] and '@'
  end
  local own = key_of(door, 'p')
  local there = redis.pcall('EXISTS', own)
  if type(there) == 'table' then
    return answer_of(there)
  end
  make_known(door, own)
  retain(door, retention)
end

local answers, n, i, elsewhere = {}, 0, 0, {}
while at <= #text do
  i = i + 1
  local other = elsewhere_of(line(), line(), line())
  if other then
    answers[n + 1], answers[n + 2] = i, other
    n = n + 2
    elsewhere[i] = true
  end
end

local count = i - n / 2
if count > 0 then
  append(ARGV[4], ARGV[5], count, n > 0 and without(ARGV[9], elsewhere) or ARGV[9])
end
return remembered(answers)
