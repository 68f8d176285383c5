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
-- ARGV[5] visitors of the events, each in four lines: its door, where it is expected at home, else the profile of the
--         room that it is expected at; that room, or empty where it is expected at home, or there `+<seconds of a day>`:
--         it is noted that it was seen; ids of its bucket; the identity, `s:<session>` or `c:<customer>`
-- ARGV[6] their JSONEachRow lines, one for each, ended by a newline
--
-- Returns a flat list {i, answer, i, answer, ...} of the events that were not appended, because their visitor is
-- elsewhere (`@<field>`, see visits.lua) or the room was merged away (its heir's id, `!` before it while the merge is
-- under way). All others were. An unknown visitor is known from now on.
-- Errors: EXPIRED -1, SUPERSEDED -2, FULL -3 (the stream is at its high-water mark); nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

-- @include lane
-- @include append
-- @include note-seen
-- @include without

local pending = tonumber(redis.call('HGET', KEYS[3], 'bytes') or 0)
if pending + #ARGV[6] > tonumber(ARGV[4]) then
  return -3
end

-- A text that is made of others is hashed by Lua: so the lines of all events stay one.
local text, type = ARGV[5], type
-- @include lines

-- Where a visitor is instead, or nil. An unknown one becomes known. `fields`: of its door, where they were asked for.
local function elsewhere_of(place, room, fields, ids, identity)
  local field, day_s = redis.call('HGET', ids, identity), sub(room, 1, 1) == '+' and sub(room, 2)
  if room == '' or day_s then
    if field and field ~= '.' then
      return '@' .. field
    elseif day_s then
      note_seen(place, ids, identity, field, day_s, time[1])
    elseif not field and fields == 0 then
      redis.call('HSET', ids, identity, '.')
    end
  elseif not field or sub(field, 1, #room + 1) ~= room .. ' ' then
    return '@' .. (field or '')
  else
    local facts = redis.call('HMGET', place, 'heir', 'owner')
    return facts[1] or not facts[2] and '@'
  end
end

local answers, n, i, elsewhere = {}, 0, 0, {}
while at <= #text do
  i = i + 1
  local place, room, other = line(), line(), nil
  local fields = room == '' and redis.pcall('HLEN', place)
  if type(fields) == 'number' and fields > 0 then
    -- One whose door has fields is at home, since a marker is no hash: nobody asks who it is.
    at = find(text, '\n', find(text, '\n', at, true) + 1, true) + 1
  else
    other = elsewhere_of(place, room, fields, line(), line())
  end
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
