-- Stores the reported state of a product in items, perhaps with an alert, in a batch. An item and its event are atomic.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua   ARGV[4..6] see includes/events-space.lua
-- ARGV[7] seven lines for each item: profile, field, the item as it was read (three lines), its new second line, event's
--   line or empty
-- Returns {i, answer, ...}; an item without an answer is stored. Answers:
--   ITEM_CHANGED; an answer of includes/fence.lua; FULL
-- A guest's TTL is not extended.
-- Errors: EXPIRED, SUPERSEDED, NO_STREAM.

-- @include codes
local sender_channel = KEYS[1]
-- @include senderChannel
-- @include events-space
-- @include profile-keys
-- @include not-here
-- @include fence

local text = ARGV[7]
-- @include lines

-- Returns an answer if the item wasn't stored.
local function stamp(profile, field, before, after, event)
  local answer = fence(profile, '', '')
  if answer then
    return answer
  end
  local items = key_of(profile, 'i')
  local there, bytes = redis.pcall('HGET', items, field), redis.pcall('HGET', profile, 'itemBytes')
  for _, reply in ipairs({ there, bytes }) do
    if type(reply) == 'table' then
      return answer_of(reply)
    end
  end
  if there ~= before then
    return ITEM_CHANGED
  elseif #event > space then
    return FULL
  end
  redis.call('HSET', items, field, after)
  redis.call('HINCRBY', profile, 'itemBytes', #after - #before)
end

local answers, events, n, i = {}, {}, 0, 0
while at <= #text do
  i = i + 1
  local profile, field, first, second, content, stamped, event = line(), line(), line(), line(), line(), line(), line()
  event = event ~= '' and event .. '\n' or ''
  local before = first .. '\n' .. second .. '\n' .. content
  local answer = stamp(profile, field, before, first .. '\n' .. stamped .. '\n' .. content, event)
  if answer then
    answers[n + 1], answers[n + 2] = i, answer
    n = n + 2
  elseif event ~= '' then
    events[#events + 1], space = event, space - #event
  end
end
if #events > 0 then
  append(ARGV[4], ARGV[5], #events, table.concat(events))
end
return remembered(answers)
