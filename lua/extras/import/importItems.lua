-- Imports items, in a batch. An item and its event are atomic. Only an item's first import has an event. An existing item
-- keeps its content and gets the earlier date.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua   ARGV[4..6] see includes/events-space.lua
-- ARGV[7..9] see includes/items.lua
-- ARGV[10] five lines for each item: profile, session, link id, field; in a dry run the number of items that the import
--   would have added to this list so far, else empty
-- ARGV[11...] item (src/wishlist/item.ts), event's line, ...
-- Returns {i, answer, ...}. Answers:
--   `new`; `there` (on the list); `again` (imported before); `gone` (imported and removed before)
--   an answer of includes/fence.lua; FULL; TOO_MANY (items or bytes)
-- Errors: EXPIRED, SUPERSEDED, NO_STREAM.

-- @include codes
local sender_channel = KEYS[1]
-- @include senderChannel
-- @include events-space
-- @include items
local text = ARGV[10]
-- @include lines

-- Returns `given`, or the stored item with the earlier of both dates.
local function merged(there, given)
  if not there then
    return given, 'new'
  end
  local id, added_at, mark, rest = string.match(there, '^(%S+) (%S+)([^\n]*)(.*)$')
  local imported_at = string.match(given, '^%S+ (%S+)')
  local earlier = imported_at < added_at and imported_at or added_at
  return id .. ' ' .. earlier .. ' import' .. rest, mark == ' import' and 'again' or 'there'
end

local function import(op, given, event)
  local item, verdict = merged(op.there, given)
  local has_event = verdict ~= 'again'
  if item ~= op.there and is_too_much(op, item) then
    return TOO_MANY
  elseif item ~= op.there and has_event and #event > space then
    return FULL
  elseif op.tried then
    return verdict
  end
  if item ~= op.there then
    store_item(op, item)
  end
  if has_event then
    keep(op, true)
  end
  return verdict, has_event
end

local answers, events, i = {}, {}, 0
while at <= #text do
  i = i + 1
  local op = { profile = line(), session = line(), link_id = line(), field = line(), tried = tonumber(line()) }
  op.items = key_of(op.profile, 'i')
  local answer, has_event = read_item(op, 'gone:' .. op.field) or op.facts[2] and 'gone', false
  if not answer then
    local event = ARGV[10 + 2 * i]
    answer, has_event = import(op, ARGV[9 + 2 * i], event)
    if has_event then
      events[#events + 1], space = event, space - #event
    end
  end
  answers[2 * i - 1], answers[2 * i] = i, answer
end
if #events > 0 then
  append(ARGV[4], ARGV[5], #events, table.concat(events))
end
return remembered(answers)
