-- Appends a batch of events to the stream of this node, each only if its visitor still has the profile in the line. Creates unknown
-- visitors.
--
-- KEYS[1] lane. The keys below are not declared: a batch spans the slots of its node.
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] events   ARGV[5] events:state   ARGV[6] high-water mark in bytes
-- ARGV[7] TTL of a guest after its last write, seconds; 0: for ever
-- ARGV[8] four lines for each event: the identity, or empty if its link was verified before; the expected link; the profile; its
--         generation
-- ARGV[9] a JSONEachRow line for each event, with its newline
--
-- Returns a flat list {i, redirect, i, redirect, ...} of the events that were not appended; see includes/redirect.lua.
-- Errors: EXPIRED -1, SUPERSEDED -2, FULL -3 (the stream is at its high-water mark), NO_STREAM -7 (it is not at this node);
-- nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

local lane = KEYS[1]
-- @include lane
local retention = tonumber(ARGV[7])
-- @include stream
-- @include retain
-- @include known
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

-- A redirect, or nil. If the slot is migrating, reads fail before anything is written.
local function redirect_of(identity, expected, profile, generation)
  local answer = redirect(identity, expected, profile, generation)
  if answer or generation ~= '' then
    return answer
  end
  local ends = redis.pcall('PEXPIRETIME', profile)
  if type(ends) == 'table' then
    return answer_of(ends)
  elseif is_in_time(ends) then
    return nil -- nearly all have a profile, and it has no new key
  elseif not are_here(profile) then
    return '~'
  end
  make_known(key_of(profile, 'v'), profile)
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
