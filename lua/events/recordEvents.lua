-- Appends each event whose visitor still has the expected profile. Creates unknown visitors.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua
-- ARGV[4..6] see includes/events-space.lua
-- ARGV[7] guest's TTL, seconds
-- ARGV[8] TTL of a record, seconds
-- ARGV[9] four lines per event: profile's key, session, link id (see includes/fence.lua), record or empty
-- ARGV[10] a JSONEachRow line per event
-- Returns {i, answer, ...} for events that were not appended: an answer of includes/fence.lua; DONE if the record shows
--   that an earlier try appended it; FENCED.
-- Errors: EXPIRED, SUPERSEDED, FULL, NO_STREAM.

-- @include codes
local sender_channel = KEYS[1]
-- @include senderChannel
local retention = tonumber(ARGV[7])
-- @include events-space
-- @include profile-keys
-- @include retain
-- @include registered
-- @include without
-- @include not-here
-- @include fence

if #ARGV[10] > space then
  return FULL
end

local text = ARGV[9]
local PROFILE = { 'v', 'p' }
-- @include lines

-- If the slot is migrating, a read fails before anything is written.
local function answer_at(profile, session, link_id, record)
  local answer = fence(profile, session, link_id)
  if answer then
    return retain_link(profile, answer)
  end
  if record ~= '' then
    local before = redis.pcall('GET', record)
    if type(before) == 'table' then
      return answer_of(before)
    elseif before then
      return before == FENCED and FENCED or DONE
    end
  end
  if session ~= '' then
    return nil
  elseif is_customer(profile) then
    local there = redis.pcall('EXISTS', profile)
    if there == 1 then
      return nil
    elseif type(there) == 'table' then
      return answer_of(there)
    end
  else
    local ends = redis.pcall('PEXPIRETIME', profile)
    if type(ends) == 'table' then
      return answer_of(ends)
    elseif is_in_time(ends) then
      return nil -- the usual case
    end
  end
  if not are_here(profile) then
    return NOT_HERE
  end
  register(key_of(profile, 'v'), profile)
  retain(profile, PROFILE)
end

local answers, n, i, left_out, records = {}, 0, 0, {}, {}
while at <= #text do
  i = i + 1
  local profile, session, link_id, record = line(), line(), line(), line()
  local answer = answer_at(profile, session, link_id, record)
  if answer then
    answers[n + 1], answers[n + 2] = i, answer
    n = n + 2
    left_out[i] = true
  elseif record ~= '' then
    records[#records + 1] = record
  end
end

local count = i - n / 2
if count > 0 then
  append(ARGV[4], ARGV[5], count, n > 0 and without(ARGV[10], left_out) or ARGV[10])
end
for _, record in ipairs(records) do
  redis.call('SET', record, '1', 'EX', ARGV[8])
end
return remembered(answers)
