-- Appends one batch of event lines to a shard's stream, each if its visitor still has the profile that the line
-- names: `r` of visits.lua and append.lua in one call. The visitors' keys are in slots of their own, so this is for
-- one server; on a cluster it takes the two calls.
--
-- KEYS[1] lane   KEYS[2] events   KEYS[3] events:state
-- KEYS[2i+2]     event i: ids of the visitor's bucket
-- KEYS[2i+3]     event i: its door, where it is expected at home, else the profile of the room that it is expected at
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] high-water mark: pending bytes that may not be passed
-- ARGV[5] visitors of the events, each in two lines: the identity, `s:<session>` or `c:<customer>`; the room that it is
--         expected at, or empty where it is expected at home, or there `+<seconds of a day>`: it is noted that it was seen
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

-- A pattern would look at every character, and a text that is made of another one is hashed by Lua: so lines are found
-- by their ends, and those of all events stay one text.
local find, sub, visitors = string.find, string.sub, ARGV[5]
local answers, n, i, elsewhere, from = {}, 0, 0, {}, 1
while from <= #visitors do
  i = i + 1
  local ids, place = KEYS[2 * i + 2], KEYS[2 * i + 3]
  local to = find(visitors, '\n', from, true)
  local identity = sub(visitors, from, to - 1)
  from = to + 1
  to = find(visitors, '\n', from, true)
  local room = sub(visitors, from, to - 1)
  from = to + 1
  local field, other = redis.call('HGET', ids, identity), false
  local is_seen = sub(room, 1, 1) == '+'
  if room == '' or is_seen then
    if field and field ~= '.' then
      other = '@' .. field
    elseif is_seen then
      note_seen(place, ids, identity, field, sub(room, 2), time[1])
    elseif not field and redis.call('EXISTS', place) == 0 then
      redis.call('HSET', ids, identity, '.')
    end
  elseif not field or sub(field, 1, #room + 1) ~= room .. ' ' then
    other = '@' .. (field or '')
  else
    local facts = redis.call('HMGET', place, 'heir', 'owner')
    other = facts[1] or not facts[2] and '@'
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
