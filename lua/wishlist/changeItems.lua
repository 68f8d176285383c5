-- Changes wishlists, in a batch. A change and its event are atomic. An operation with a record is done once.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua   ARGV[4..6] stream, its state, high-water mark in bytes
-- ARGV[7] guest's TTL, seconds   ARGV[8] maximum items of a profile; 0 means no limit
-- ARGV[9] maximum of the profile's `itemBytes`; 0 means no limit
-- ARGV[10] columns of a removal's event: `<field of the item>=<column> `
-- ARGV[11] operations, in lines, see next_op: `a` adds or updates an item (src/wishlist/item.ts), `m` imports one, `r`
--   removes items, `t` stores the reported state of a product, `c` assigns or reads a share code
-- ARGV[12] a line for each event of a, m, t, c   ARGV[13...] `<updated at>\n<content>` for each a and m
-- Returns {i, answer, ...}; an operation without an answer is done. Answers:
--   DONE and a value. The values: `a`: the existing `<item id> <added at>`; `c`: the code; `r`: the
--     number of removed items; `m`: `new`, `there` (on the list), `again` (imported before), or `gone` (imported and
--     removed before)
--   HAS_CODE and the profile's code, or nothing: to share, send a code with an event
--   ITEM_CHANGED; FENCED; an answer of includes/fence.lua; FULL; TOO_MANY (items or bytes)
-- `r` and `t` create no identity. `t` doesn't extend a guest's TTL.
-- Errors: EXPIRED, SUPERSEDED, NO_STREAM.

-- @include codes
local sender_channel = KEYS[1]
-- @include senderChannel
local retention, max_items, max_bytes = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
-- @include stream
-- @include profile-keys
-- @include retain
-- @include registered
-- @include without
-- @include not-here
-- @include fence

local space = space_in(ARGV[4], ARGV[5], ARGV[6])
if not space then
  return NO_STREAM
end
local text = ARGV[11]
local WISHLIST, PROFILE = { 'p', 'i' }, { 'p' }
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

-- Sets `facts`, and `there` to the item of the operation's field. Returns an answer if the operation can't be done.
local function read(op)
  local answer = fence(op.profile, op.session, op.link_id)
  if answer then
    return retain_link(op.profile, answer)
  elseif op.kind ~= 't' and not are_here(op.profile) then
    return NOT_HERE
  end
  op.facts = redis.pcall('HMGET', op.profile, 'itemBytes', 'share')
  op.there = op.field and redis.pcall('HGET', op.items, op.field)
  local failed = op.facts.err and op.facts or type(op.there) == 'table' and op.there
  return failed and answer_of(failed)
end

-- The function of an operation returns an answer or nil, then whether it is done, then the value for its record.

local function first_line(item)
  return sub(item, 1, find(item, '\n', 1, true) - 1)
end

local function is_imported(item)
  return find(item, '^%S+ %S+ import\n') ~= nil
end

-- `given` is the event's length in bytes.
local function store(op, item, given)
  local there = op.there
  local gained = #item - #(there or '')
  local bytes = (op.facts[1] or 0) + gained
  if max_items > 0 and not there and redis.call('HLEN', op.items) + (op.tried or 0) >= max_items then
    return TOO_MANY
  elseif max_bytes > 0 and gained > 0 and bytes > max_bytes then
    return TOO_MANY
  end
  if given > space then
    return FULL
  elseif op.tried then
    return
  end
  redis.call('HSET', op.items, op.field, item)
  op.had_all = there and op.facts[1]
  if gained ~= 0 then
    redis.call('HINCRBY', op.profile, 'itemBytes', gained)
  end
end

local function add(op, given, content)
  local first = op.there and first_line(op.there)
  local refused = store(op, (first or op.creation_line) .. '\n' .. content, given)
  if refused then
    return refused
  end
  return first and DONE .. first, true, first or op.creation_line
end

-- Only an item's first import has an event. The item gets the earlier date.
local function import(op, given, content)
  if redis.call('HEXISTS', op.profile, 'gone:' .. op.field) == 1 then
    return DONE .. 'gone'
  end
  local there, refused, verdict = op.there, nil, nil
  if there then
    local id, added_at = string.match(there, '^(%S+) (%S+)')
    local own, imported_at = sub(there, #first_line(there) + 1), string.match(op.creation_line, '^%S+ (%S+)')
    local earlier = imported_at < added_at and imported_at or added_at
    verdict = is_imported(there) and 'again' or 'there'
    local item = id .. ' ' .. earlier .. ' import' .. own
    refused = item ~= there and store(op, item, verdict == 'there' and given or 0)
  else
    verdict = 'new'
    refused = store(op, op.creation_line .. '\n' .. content, given)
  end
  return refused or DONE .. verdict, not refused and not op.tried and verdict ~= 'again'
end

local function remove(op, events)
  local leaving, imported, gained, needed = {}, {}, 0, 0
  for _, wanted in ipairs(op.wanted) do
    local there = redis.pcall('HGET', op.items, wanted.field)
    if type(there) == 'table' then
      return answer_of(there)
    elseif there then
      leaving[#leaving + 1], gained = wanted.field, gained + #there
      imported[wanted.field] = is_imported(there) or nil
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
  -- If the same file is imported again, it must not restore removed items.
  for field in pairs(imported) do
    redis.call('HSET', op.profile, 'gone:' .. field, '1')
  end
  if #leaving > 0 then
    redis.call('HINCRBY', op.profile, 'itemBytes', -gained)
  end
  local count = #leaving > 0 and string.format('%d', #leaving) or ''
  return count ~= '1' and DONE .. count, true, count ~= '' and count or '0'
end

local function notify(op, given)
  if op.there ~= op.item then
    return ITEM_CHANGED
  elseif given > space then
    return FULL
  end
  redis.call('HSET', op.items, op.field, op.notified)
  redis.call('HINCRBY', op.profile, 'itemBytes', #op.notified - #op.item)
  return nil, true
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

local BY_KIND = { a = add, m = import, c = share, t = notify }

local function next_op()
  local first = line()
  local op = { kind = sub(first, 1, 1), profile = sub(first, 2), session = line(), link_id = line() }
  op.items, op.record = key_of(op.profile, 'i'), line()
  if op.record ~= '' then
    op.recorded_s = line()
  end
  if op.kind == 'a' or op.kind == 'm' then
    op.field, op.creation_line = line(), line()
    op.tried = op.kind == 'm' and tonumber(line()) -- Set in a dry run: items that the import would have added so far.
  elseif op.kind == 'c' then
    op.code = line()
    op.is_new = line() == '1'
  elseif op.kind == 't' then
    op.field = line()
    local first, second, content, notified = line(), line(), line(), line()
    op.item = first .. '\n' .. second .. '\n' .. content
    op.notified = first .. '\n' .. notified .. '\n' .. content
    op.has_event = line() == '1'
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
  local has_content = op.kind == 'a' or op.kind == 'm'
  if has_content or op.kind == 'c' and op.code ~= '' or op.has_event then
    local stop = find(ARGV[12], '\n', from, true)
    given, from, given_count = stop - from + 1, stop + 1, given_count + 1
  end
  if has_content then
    argument = argument + 1
    content = ARGV[argument]
  end

  local is_done, record = false, nil
  local answer = read(op)
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
    if op.kind ~= 't' then
      if op.kind ~= 'r' and not op.had_all then
        register(key_of(op.profile, 'v'), op.profile)
      end
      retain(op.profile, op.had_all and PROFILE or WISHLIST)
    end
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
