-- Appends each event whose visitor still has the expected profile. Creates unknown visitors.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua   ARGV[4..6] stream, its state, high-water mark in bytes
-- ARGV[7] guest's TTL, seconds   ARGV[8] four lines per event: arguments of includes/redirect.lua
-- ARGV[9] a JSONEachRow line per event
-- Returns {i, redirect, ...} for events whose visitor has another profile.
-- Errors: EXPIRED -1, SUPERSEDED -2, FULL -3, NO_STREAM -7.

local sender_channel = KEYS[1]
-- @include senderChannel
local retention = tonumber(ARGV[7])
-- @include stream
-- @include retain
-- @include registered
-- @include without
-- @include not-here
-- @include gone
-- @include redirect

local space = space_in(ARGV[4], ARGV[5], ARGV[6])
if not space then
  return -7
elseif #ARGV[9] > space then
  return -3
end

local text = ARGV[8]
local PROFILE = { 'v', 'p' }
-- @include lines

-- If the slot is migrating, a read fails before anything is written.
local function redirect_of(identity, expected, profile, generation)
  local answer = redirect(identity, expected, profile, generation)
  if answer or generation ~= '' then
    return answer
  end
  local ends = redis.pcall('PEXPIRETIME', profile)
  if type(ends) == 'table' then
    return answer_of(ends)
  elseif is_in_time(ends) then
    return nil -- the usual case
  elseif not are_here(profile) then
    return '~'
  end
  register(key_of(profile, 'v'), profile)
  retain(profile, PROFILE, identity)
end

local answers, n, i, elsewhere = {}, 0, 0, {}
while at <= #text do
  i = i + 1
  local other = redirect_of(line(), line(), line(), line())
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
