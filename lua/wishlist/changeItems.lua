-- Changes wishlists, in a batch. A change and its event are atomic. An operation with a record is done once.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua   ARGV[4..6] see includes/events-space.lua
-- ARGV[7..9] see includes/items.lua
-- ARGV[10] columns of a removal's event: `<field of the item>=<column> `
-- ARGV[11] operations, in lines, see next_op: `a` adds or updates an item (src/wishlist/item.ts), `r` removes items, `c`
--   assigns or reads a share code
-- ARGV[12] a line for each event of a and c   ARGV[13...] `<updated at>\n<content>` for each a
-- Returns {i, answer, ...}; an operation without an answer is done. Answers:
--   DONE and a value. The values: `a`: the existing `<item id> <added at>`; `c`: the code; `r`: the number of removed items
--   HAS_CODE and the profile's code, or nothing: to share, send a code with an event
--   FENCED; an answer of includes/fence.lua; FULL; TOO_MANY (items or bytes)
-- `r` creates no identity.
-- Errors: EXPIRED, SUPERSEDED, NO_STREAM.

-- @include codes
local sender_channel = KEYS[1]
-- @include senderChannel
-- @include events-space
-- @include items
-- @include without
local text = ARGV[11]
-- @include lines

-- Encodes like JSON.stringify, which doesn't escape `/`.
local function json(value)
  return (string.gsub(cjson.encode(value), '\\/', '/'))
end

local function filled(given, names, stored)
  -- `properties` are cut off, because cjson may fail to parse them.
  local content = string.gsub(string.match(stored, '\n({[^\n]*)$'), ',"properties":.*', '}')
  local item, columns, payload = cjson.decode(content), {}, {}
  for name in string.gmatch(names, '%S+') do
    local value = json(item[name])
    local column = string.match(ARGV[10], name .. '=(%S+)')
    if column and value ~= 'null' then
      columns[#columns + 1] = ',"' .. column .. '":' .. value
    end
    payload[#payload + 1] = '"' .. name .. '":' .. value
  end
  return given .. table.concat(columns) .. ',"payload":' .. json('{' .. table.concat(payload, ',') .. '}') .. '}'
end

-- The function of an operation returns an answer or nil, then whether it is done, then the value for its record.

-- An extra marks an item by a third word, see src/wishlist/item.ts.
local function is_marked(item)
  return find(item, '^%S+ %S+ %S') ~= nil
end

local function add(op, given, content)
  local first = op.there and sub(op.there, 1, find(op.there, '\n', 1, true) - 1)
  local item = (first or op.creation_line) .. '\n' .. content
  if is_too_much(op, item) then
    return TOO_MANY
  elseif given > space then
    return FULL
  end
  store_item(op, item)
  return first and DONE .. first, true, first or op.creation_line
end

local function remove(op, events)
  local leaving, marked, gained, needed = {}, {}, 0, 0
  for _, wanted in ipairs(op.wanted) do
    local there = redis.pcall('HGET', op.items, wanted.field)
    if type(there) == 'table' then
      return answer_of(there)
    elseif there then
      leaving[#leaving + 1], gained = wanted.field, gained + #there
      marked[wanted.field] = is_marked(there) or nil
      local event = (wanted.names == '' and wanted.event or filled(wanted.event, wanted.names, there)) .. '\n'
      events[#leaving], needed = event, needed + #event
    end
  end
  if needed > space then
    return FULL
  end
  -- HDEL comes before HSET: at maxmemory, Redis lets a script write more once it has freed memory.
  for _, field in ipairs(leaving) do
    redis.call('HDEL', op.items, field)
  end
  for field in pairs(marked) do
    redis.call('HSET', op.profile, 'gone:' .. field, '1')
  end
  if #leaving > 0 then
    redis.call('HINCRBY', op.profile, 'itemBytes', -gained)
  end
  local count = #leaving > 0 and string.format('%d', #leaving) or ''
  return count ~= '1' and DONE .. count, true, count ~= '' and count or '0'
end

local function share(op, given)
  local code = op.facts[2] or ''
  -- A code is assigned only if it is new: since it was read, the visitor may have been erased and come back.
  if op.code == '' or code ~= '' and code ~= op.code or code == '' and not op.is_new then
    return HAS_CODE .. code
  elseif given > space then
    return FULL
  end
  if code == '' then
    redis.call('HSET', op.profile, 'share', op.code)
  end
  return nil, true, op.code
end

local BY_KIND = { a = add, c = share }

local function next_op()
  local first = line()
  local op = { kind = sub(first, 1, 1), profile = sub(first, 2), session = line(), link_id = line() }
  op.items, op.record = key_of(op.profile, 'i'), line()
  if op.record ~= '' then
    op.recorded_s = line()
  end
  if op.kind == 'a' then
    op.field, op.creation_line = line(), line()
  elseif op.kind == 'c' then
    op.code = line()
    op.is_new = line() == '1'
  else
    op.wanted = {} -- `names` are payload fields to copy from the item. If there are any, `event` lacks its payload.
    for w = 1, tonumber(line()) do
      op.wanted[w] = { field = line(), event = line(), names = line() }
    end
  end
  return op
end

local answers, n, i, argument, from = {}, 0, 0, 12, 1
-- `given_count` counts lines taken from ARGV[12]; `left_out` has those not appended. `removed` has removals' events.
local given_count, left_out, left_out_count, removed = 0, {}, 0, {}
while at <= #text do
  i = i + 1
  local op = next_op()
  local given, content = 0, nil
  if op.kind == 'a' or op.kind == 'c' and op.code ~= '' then
    local stop = find(ARGV[12], '\n', from, true)
    given, from, given_count = stop - from + 1, stop + 1, given_count + 1
  end
  if op.kind == 'a' then
    argument = argument + 1
    content = ARGV[argument]
  end

  local is_done, record = false, nil
  local answer = read_item(op, 'share')
  if not answer then
    local before = op.record ~= '' and redis.pcall('GET', op.record)
    if type(before) == 'table' then
      answer = answer_of(before)
    elseif before then
      answer = before == FENCED and FENCED or DONE .. before
    elseif op.kind ~= 'r' then
      answer, is_done, record = BY_KIND[op.kind](op, given, content)
    else
      local events = {}
      answer, is_done, record = remove(op, events)
      for _, event in ipairs(events) do
        if is_done then
          removed[#removed + 1], space = event, space - #event
        end
      end
    end
  end
  if is_done then
    space = space - given
    if op.record ~= '' then
      redis.call('SET', op.record, record, 'EX', op.recorded_s)
    end
    keep(op, op.kind ~= 'r')
  elseif given > 0 then
    left_out[given_count], left_out_count = true, left_out_count + 1
  end
  if answer then
    answers[n + 1], answers[n + 2] = i, answer
    n = n + 2
  end
end

local count = given_count - left_out_count + #removed
if count > 0 then
  -- Lua hashes every new string, so an unchanged argument is passed on as it is.
  local lines = left_out_count > 0 and without(ARGV[12], left_out) or ARGV[12]
  append(ARGV[4], ARGV[5], count, #removed > 0 and lines .. table.concat(removed) or lines)
end
return remembered(answers)
