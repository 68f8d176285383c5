-- Counts, reads and resets visits, and reads links, in a batch. Counted visits are logged as one stream entry.
-- A profile's hash has its counts. That of a linked session has only its link, in the empty field, so a guest's visit
-- looks for a link only if its count is 1.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua
-- ARGV[4] maximum products of a profile
-- ARGV[5] guest's TTL, seconds
-- ARGV[6..8] stream (empty: no log), its state, high-water mark in bytes
-- ARGV[9] a line per visit
-- ARGV[10..] operations, three each:
--   visit <counts> <product>       counts a visit
--   kept  <counts> <product>       the same, if the guest's TTL was checked within the hour, or for a customer
--   count <counts> <product>       counts a visit, and answers the count
--   read  <counts> <product>       answers the count
--   reset <counts> <product>       answers 0
--   peek  <counts> <empty>         answers an answer of includes/fence.lua, GUEST, or empty if the profile is unknown
--   extend <counts> <empty>        the same, and extends the life of a link
--   resolve <counts> <empty>       the same, and creates an unknown profile
-- An operation may be preceded by, in this order:
--   once <record> <seconds>        the operation is done once, and the record keeps its answer
--   by <members> <session> <link id>   the operation is done only if the customer has the session, see includes/fence.lua
-- Returns {i, answer, ...}. A visit answers only if it was not counted: TOO_MANY, FENCED, or an answer of
--   includes/fence.lua. The answer of i = 0 is how many visits were counted but not logged, because the stream is full.
-- Errors: EXPIRED, SUPERSEDED, NO_STREAM.

-- @include codes
local sender_channel = KEYS[1]
-- @include senderChannel
local max, retention = tonumber(ARGV[4]), tonumber(ARGV[5])
-- @include profile-keys
-- @include retain
-- @include registered
-- @include without
-- @include not-here
-- @include fence

local stream, state, mark = ARGV[6], ARGV[7], tonumber(ARGV[8])
local waiting
if stream ~= '' then
  waiting = redis.pcall('HMGET', state, 'events', 'bytes')
  local length = redis.pcall('XLEN', stream)
  local failed = waiting.err or type(length) == 'table' and length.err
  if failed and string.find(failed, 'non local key', 1, true) then
    return NO_STREAM
  elseif failed then
    waiting = { 0, math.huge } -- as if the stream were full: visits are counted, not logged
  end
end

local COUNTS, PROFILE = { 'v' }, { 'v', 'p' }

-- `count` is HINCRBY's reply. Returns it, or why the visit was undone.
local function guest_visit(counts, handle, count)
  local answer
  if count == 1 then
    local fields = redis.call('HLEN', counts)
    local link = fields == 2 and redis.call('HGET', counts, '')
    if link then
      answer = retain_link(counts, LINKED .. link)
    elseif fields > max then
      answer = TOO_MANY
    elseif fields == 1 and redis.pcall('EXISTS', key_of(counts, 'p')) == 0 then
      -- Only a new guest has neither a profile nor other counts.
      if retention > 0 then
        redis.call('PEXPIREAT', counts, string.format('%d', most))
      end
      return count
    elseif fields == 1 then
      answer = retired(key_of(counts, 'p'))
    end
  end
  if not answer and not is_in_time(redis.call('PEXPIRETIME', counts)) then
    if are_here(counts) then
      retain(counts, COUNTS)
    else
      answer = NOT_HERE
    end
  end
  if answer and count == 1 then
    redis.call('HDEL', counts, handle)
  elseif answer then
    redis.call('HINCRBY', counts, handle, '-1')
  end
  return answer or count
end

local function visit(counts, handle, count)
  if type(count) == 'table' then
    return answer_of(count)
  elseif not is_customer(counts) then
    return guest_visit(counts, handle, count)
  elseif count == 1 and redis.call('HLEN', counts) > max then
    redis.call('HDEL', counts, handle)
    return TOO_MANY
  end
  return count
end

-- Checks before it writes, because in a migrating slot deleting the last count would make the key absent.
local function reset(counts, handle)
  local answer = fence(key_of(counts, 'p'), '')
  if answer then
    return retain_link(counts, answer)
  end
  local there = redis.pcall('HEXISTS', counts, handle)
  if type(there) == 'table' then
    return answer_of(there)
  elseif there == 0 then
    return 0
  elseif not are_here(counts) then
    return NOT_HERE
  elseif redis.call('HLEN', counts) == 1 then
    redis.call('HSET', key_of(counts, 'p'), 'registered', '1') -- stays registered without counts
  end
  redis.call('HDEL', counts, handle)
  retain(counts, PROFILE)
  return 0
end

-- Reads every key before it writes, because NOT_HERE means that nothing was done.
local function link_of(kind, counts)
  local profile = key_of(counts, 'p')
  local answer = fence(profile, '')
  if answer then
    return kind == 'peek' and answer or retain_link(counts, answer)
  end
  for _, key in ipairs({ counts, profile }) do
    local there = redis.pcall('EXISTS', key)
    if type(there) == 'table' then
      return answer_of(there)
    elseif there == 1 and kind ~= 'resolve' then
      return GUEST
    end
  end
  if kind ~= 'resolve' then
    return ''
  elseif not are_here(counts) then
    return NOT_HERE
  end
  register(counts, profile)
  retain(counts, PROFILE)
  return GUEST
end

local function read(counts, handle)
  local both = redis.pcall('HMGET', counts, handle, '')
  if both.err then
    return answer_of(both)
  elseif both[2] then
    return LINKED .. both[2]
  end
  return tonumber(both[1]) or not is_customer(counts) and retired(key_of(counts, 'p')) or 0
end

local function act(kind, counts, handle)
  if kind == 'reset' then
    return reset(counts, handle)
  elseif kind == 'peek' or kind == 'extend' or kind == 'resolve' then
    return link_of(kind, counts)
  elseif kind == 'read' then
    return read(counts, handle)
  end
  return visit(counts, handle, redis.pcall('HINCRBY', counts, handle, '1'))
end

local at = 10
local function take()
  at = at + 3
  return ARGV[at - 3], ARGV[at - 2], ARGV[at - 1]
end

local visits, uncounted, skipped = 0, 0, nil
-- `count` is HINCRBY's reply, if it was called.
local function perform(kind, key, handle, count)
  local record, seconds, earlier, answer
  if kind == 'once' then
    record, seconds = key, handle
    earlier = redis.pcall('GET', record)
    answer = type(earlier) == 'table' and answer_of(earlier) or tonumber(earlier) or earlier or nil
    kind, key, handle = take()
  end
  if kind == 'by' then
    answer = answer or fence(key_of(key, 'p'), handle, ARGV[at])
    at = at + 1
    kind, key, handle = take()
  end
  answer = answer or count and visit(key, handle, count) or act(kind, key, handle)
  local is_done = type(answer) == 'number' and answer >= 0
  if record and is_done and not earlier then
    redis.call('SET', record, answer, 'EX', seconds)
  end
  if kind == 'visit' or kind == 'kept' or kind == 'count' then
    visits = visits + 1
    if earlier or not is_done then
      uncounted, skipped = uncounted + 1, skipped or {}
      skipped[visits] = true
    elseif kind ~= 'count' then
      return nil
    end
  end
  return answer
end

local answers, n, i, last = {}, 0, 0, #ARGV
while at <= last do
  i = i + 1
  local kind, key, handle = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  local count = (kind == 'kept' or kind == 'visit') and redis.pcall('HINCRBY', key, handle, '1')
  local is_warm = type(count) == 'number' and count > 1
  if is_warm and kind == 'visit' then
    local ends = redis.call('PEXPIRETIME', key)
    is_warm = ends >= least and ends <= most
  end
  if is_warm then
    visits = visits + 1 -- the usual case
  else
    local answer = perform(kind, key, handle, count)
    if answer then
      answers[n + 1], answers[n + 2] = i, answer
      n = n + 2
    end
  end
end

-- Redis itself would format a number as floating-point, which is slower.
local function whole(number)
  return string.format('%d', number)
end

local counted = visits - uncounted
if waiting and counted > 0 then
  local lines = skipped and without(ARGV[9], skipped) or ARGV[9]
  local bytes = (waiting[2] or 0) + #lines
  if bytes > mark then
    answers[n + 1], answers[n + 2] = 0, counted
  else
    -- The time is a field, because entry ids don't go back if the server's clock does.
    redis.call('XADD', stream, '*', 'n', whole(counted), 't', whole(now), 'v', lines)
    redis.call('HSET', state, 'events', whole((waiting[1] or 0) + counted), 'bytes', whole(bytes))
  end
end

return remembered(answers)
