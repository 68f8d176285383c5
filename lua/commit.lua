-- Changes fields of one of a profile's hashes and leaves the events of the change in its outbox: both or neither.
-- Does nothing where a field is not what the sender believes, and gives out the event of an earlier try that
-- did not reach the stream in place of a second one.
--
-- KEYS[1] visits of the profile (a string naming its heir once merged away)   KEYS[2] outbox of the profile
-- KEYS[3] the hash                      KEYS[4] record of the operation; left out where it has no id
--
-- ARGV[1]  the deed in words, like `add 22:33`; asked for again it has the same words
-- ARGV[2]  1 where, as the sender believes, what is asked for holds already: then a pending event of this
--          deed is an earlier try's; else 0
-- ARGV[3]  milliseconds for which a pending event is taken to be under way in another request
-- ARGV[4]  milliseconds after which a pending event is given to whoever comes by
-- ARGV[5]  pending events at which no new ones are taken
-- ARGV[6]  seconds for which the operation is remembered
-- ARGV[7]  number of fields n
-- ARGV[8..7+3n]  field, value that it is believed to have, value that it shall have; empty stands for absent.
--          Believed `*` is whatever it is; then the first line of a value that is there stays, the second may
--          differ, and what is asked for holds where the rest is the same.
-- ARGV[8+3n..]   event id, line; one pair for each event
--
-- The outbox holds event id -> `<milliseconds of this server's clock>\n<deed>\n<line>`.
--
-- Returns the heir's id (string) where the profile was merged away, or a list that begins with
--   1  done, or done before: {1, {value, ...}, {id, line, ...} of this deed that are to be appended,
--      {id, line, ...} of others}, values as they are now; without any event of this deed nothing happened:
--      there was nothing to change, or its events are out
--   2  a field is not what it was believed to be: {2, {value, ...}}
--   3  the same deed is under way in another request: {3}
-- Errors: FULL -3, in a list {-3, {id, line, ...}} (the outbox is full, of these events).
-- In all cases but 1 nothing was done. (What is pending since a time that is yet to come, because this server's
-- clock was set back, is from now on pending since now: nothing is under way for as long as the jump.)
-- The same call sent again answers as the first time.

local heir = redis.pcall('GET', KEYS[1])
if type(heir) == 'string' then
  return heir
end

local deed, holds, n = ARGV[1], ARGV[2] == '1', tonumber(ARGV[7])
local first_event = 8 + 3 * n

local fields, values, wanted, is_wrong = {}, {}, {}, false
for i = 1, n do
  fields[i], wanted[i] = ARGV[5 + 3 * i], ARGV[7 + 3 * i]
  values[i] = redis.call('HGET', KEYS[3], fields[i]) or ''
  if ARGV[6 + 3 * i] ~= '*' then
    is_wrong = is_wrong or values[i] ~= ARGV[6 + 3 * i]
  elseif values[i] ~= '' then
    local second, rest = string.match(wanted[i], '^[^\n]*\n([^\n]*\n)(.*)$')
    local kept, there = string.match(values[i], '^([^\n]*\n)[^\n]*\n(.*)$')
    wanted[i] = kept .. second .. rest
    holds = there == rest
  end
end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local pending, same, others = redis.call('HGETALL', KEYS[2]), {}, {}
local is_full = #pending / 2 >= tonumber(ARGV[5])
local youngest, is_mine = math.huge, false
for i = 1, #pending, 2 do
  local id, entry = pending[i], pending[i + 1]
  local since, what, line = string.match(entry, '^(%d+)\n([^\n]*)\n(.*)$')
  local age = now - tonumber(since)
  if age < 0 then
    age = 0
    redis.call('HSET', KEYS[2], id, now .. '\n' .. what .. '\n' .. line)
  end
  local list = others
  if what == deed then
    list = same
    youngest = math.min(youngest, age)
    is_mine = is_mine or id == ARGV[first_event]
  end
  if list == same or is_full or age >= tonumber(ARGV[4]) then
    list[#list + 1] = id
    list[#list + 1] = line
  end
end

if is_mine or (KEYS[4] and redis.call('EXISTS', KEYS[4]) == 1) then
  return { 1, values, same, others }
end
if is_wrong then
  return { 2, values }
end
if holds and #same > 0 then
  if youngest < tonumber(ARGV[3]) then
    return { 3 }
  end
  for i = 1, #same, 2 do
    redis.call('HSET', KEYS[2], same[i], now .. '\n' .. deed .. '\n' .. same[i + 1])
  end
  return { 1, values, same, others }
end
if is_full and ARGV[first_event] then
  for i = 1, #same do
    others[#others + 1] = same[i]
  end
  return { -3, others }
end

for i = 1, n do
  if wanted[i] == '' then
    redis.call('HDEL', KEYS[3], fields[i])
  else
    redis.call('HSET', KEYS[3], fields[i], wanted[i])
  end
end
local mine = {}
for i = first_event, #ARGV, 2 do
  redis.call('HSET', KEYS[2], ARGV[i], now .. '\n' .. deed .. '\n' .. ARGV[i + 1])
  mine[#mine + 1] = ARGV[i]
  mine[#mine + 1] = ARGV[i + 1]
end
if KEYS[4] then
  redis.call('SET', KEYS[4], 1, 'EX', ARGV[6])
end
return { 1, wanted, mine, others }
