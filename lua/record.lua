-- Appends one batch of event lines to a shard's stream, each if its visitor still has the profile that the line
-- names: `r` of visits.lua and append.lua in one call. The visitors' keys are in slots of their own, so this is for
-- one server; on a cluster it takes the two calls.
--
-- KEYS[1] lane   KEYS[2] events   KEYS[3] events:state
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] high-water mark: pending bytes that may not be passed
-- ARGV[5] visitors of the events, each in three lines: its door; where it is expected at a room, its field and the room's profile,
--         else two empty lines
-- ARGV[6] their JSONEachRow lines, one for each, ended by a newline
-- ARGV[7] seconds for which a guest stays after its last write; 0: for ever
--
-- Returns a flat list {i, answer, i, answer, ...} of the events that were not appended, because their visitor is
-- elsewhere (`@<field>`, see visits.lua) or the room was merged away (its heir's id, `!` before it while the merge is
-- under way). All others were. An unknown visitor is known from now on.
-- Errors: EXPIRED -1, SUPERSEDED -2, FULL -3 (the stream is at its high-water mark); nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

-- @include lane
-- @include append
-- @include retain
-- @include known
-- @include without

local pending = tonumber(redis.call('HGET', KEYS[3], 'bytes') or 0)
if pending + #ARGV[6] > tonumber(ARGV[4]) then
  return -3
end

-- A text that is made of others is hashed by Lua: so the lines of all events stay one.
local text = ARGV[5]
-- @include lines

-- Where a visitor is instead, or nil. An unknown one becomes known.
local function elsewhere_of(door, expected, profile)
  local field = redis.call('HGET', door, '')
  if expected ~= '' then
    if field ~= expected then
      return '@' .. (field or '')
    end
    local facts = redis.call('HMGET', profile, 'heir', 'owner')
    return facts[1] or not facts[2] and '@'
  elseif field then
    return '@' .. field
  end
  make_known(door, key_of(door, 'p'))
  retain(door, tonumber(ARGV[7]))
end

local answers, n, i, elsewhere = {}, 0, 0, {}
while at <= #text do
  i = i + 1
  local door, expected, profile = line(), line(), line()
  local other = elsewhere_of(door, expected, profile)
  if other then
    answers[n + 1], answers[n + 2] = i, other
    n = n + 2
    elsewhere[i] = true
  end
end

local count, lines = i - n / 2, ARGV[6]
if n > 0 then
  lines = without(lines, elsewhere)
end
if count > 0 then
  append(count, lines)
end
return remembered(answers)
