-- Changes wishlists: a batch of operations in one call. A change and its event are both made, or neither.
--
-- On one server the identity's door is checked and the event is appended to the stream in the same step. On a cluster
-- these are in other slots: the event waits in the profile's outbox, and its sender brings it to the stream. An operation
-- with a record is done once: asked for again it answers as the first time, and on a cluster names its events once more.
--
-- KEYS[1]  lane   KEYS[2..3]  events and events:state of the shard; left out on a cluster
-- KEYS[4...]  the keys of each operation, in order (on a cluster from KEYS[2] on):
--            a r c  profile, items (c on one server: share key of the drawn code), then on a cluster the outbox, then
--                   the record of one that has it (see fence.lua), then, where an identity is named, its door
--            s      profile, outbox
--
-- ARGV[1]  sequence number of the batch in its lane
-- ARGV[2]  deadline, in milliseconds of this server's clock
-- ARGV[3]  seconds for which the lane remembers its last batch
-- ARGV[4]  high-water mark of the stream: pending bytes that may not be passed; empty on a cluster
-- ARGV[5]  items that a profile may have; 0: any number
-- ARGV[6]  bytes that they may have together, counted in `itemBytes` of the profile; 0: they are not counted
-- ARGV[7]  columns of an event that `r` fills from the item, as `<field of the item>=<column> `
-- ARGV[8]  seconds for which a guest stays after its last write; 0: for ever
-- ARGV[9]  the operations, in lines. The first one: the kind, one letter; for a r c with the identity, `s:<session>` or
--          `c:<customer>`, or nothing where its door was asked before; after an identity comes the field that its door is
--          expected to have, or empty where it is expected at home. Then for a r c seconds for which its record is kept, or empty where it
--          has none, and:
--            a  add or update an item: its field, `<item id> <added at>`
--            r  remove items: number of items; for each its field, the event's line, and fields of the item that make its
--               payload; where there are any, the line has no columns of the item and no end
--            c  share: a code that was drawn, 1 where its key is written already, the profile's id
--            s  an event of an outbox is in the stream: id of the event
-- ARGV[10] the events of a and c, a line each; that of c has the drawn code
-- ARGV[11...]  for each a `<updated at>\n<content>`
--
-- An item is `<item id> <added at>\n<updated at>\n<content, JSON>`; its first line stays when it is added again. The
-- outbox holds event id -> `<milliseconds of this server's clock>\n<record of its operation, or empty>\n<line>`.
--
-- Returns a flat list {i, answer, i, answer, ...} of the operations that have one. Those missing were done as asked.
--   `@<field>`: the identity is elsewhere (see visits.lua)
--   the heir's id, `!` before it while the merge is under way: the profile was merged away; `@`: it is being erased, or
--     there is no such room (any more)
--   `=<value>`: done, now or before under its record. The value is the `<item id> <added at>` or the code that was there, or
--     how many items were removed; else empty. On a cluster a newline and the events that the sender appends, as lines
--   `~\n<line>\n...`: not now: the outbox is full of these events
--   `?`: the key of the drawn code must be written first
--   `-`: the operation is done at another place now (its record was fenced)
--   FULL -3: the stream is at its high-water mark; TOO_MANY -6: too many items, or bytes
-- Where it was not done nothing has changed. `r` makes no unknown identity known.
-- Errors: EXPIRED -1, SUPERSEDED -2 (the lane is past this batch); nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

-- Then no caller comes back for an event in an outbox.
local LEFT_BEHIND_MS = 60000
-- Bounds what a full stream can make an outbox hold.
local MAX_PENDING = 64

-- @include lane
-- @include append
-- @include retain
-- @include known
-- A number is spelled each time that it is given to a command, with all the digits that a fraction might have.
local stamp = string.format('%.0f', now)

-- A pattern would look at every character.
local find, sub, from = string.find, string.sub, 1
local function next_line()
  local to = find(ARGV[9], '\n', from, true)
  if to then
    local start = from
    from = to + 1
    return sub(ARGV[9], start, to - 1)
  end
end

-- On one server what the stream still takes, and what it is given. A text that is used as it was given is hashed once by
-- Lua: so many lines from the start of it, and others after them.
local space, size, events_given, taken, count, lines = tonumber(ARGV[4]), 0, ARGV[10], 0, 0, {}
-- How many keys were taken so far.
local k = 1
if space then
  k = 3
  space = space - (redis.call('HGET', KEYS[3], 'bytes') or 0)
end

-- As JSON.stringify writes it.
local function json(value)
  return (string.gsub(cjson.encode(value), '\\/', '/'))
end

-- The line of an event, filled from the item that leaves.
local function fill(line, names, stored)
  -- `properties` may be more than cjson takes, and no event has them.
  local content = string.gsub(string.match(stored, '\n({[^\n]*)$'), ',"properties":.*', '}')
  local item, columns, payload = cjson.decode(content), {}, {}
  for name in string.gmatch(names, '%S+') do
    local value = json(item[name])
    local column = string.match(ARGV[7], name .. '=(%S+)')
    if column and value ~= 'null' then
      columns[#columns + 1] = ',"' .. column .. '":' .. value
    end
    payload[#payload + 1] = '"' .. name .. '":' .. value
  end
  local whole = json('{' .. table.concat(payload, ',') .. '}')
  return line .. table.concat(columns) .. ',"payload":' .. whole .. '}'
end

-- Events of an operation with a record that wait in an outbox; those that any operation takes along, because they were
-- left behind; whether no more fit.
local function pending_in(outbox, record)
  local pending, mine, others = redis.call('HGETALL', outbox), {}, {}
  local is_full = #pending / 2 >= MAX_PENDING
  for e = 1, #pending, 2 do
    local at, of, line = string.match(pending[e + 1], '^(%d+)\n([^\n]*)\n(.*)$')
    local age = now - at
    if age < 0 then
      -- The clock was set back: nothing is left behind any later for that.
      redis.call('HSET', outbox, pending[e], stamp .. '\n' .. of .. '\n' .. line)
    end
    if of ~= '' and of == record then
      mine[#mine + 1] = line
    elseif is_full or age >= LEFT_BEHIND_MS then
      others[#others + 1] = line
    end
  end
  return mine, others, is_full
end

-- Whether a wishlist may not take this, and its bytes afterwards, where they are counted.
local max_items, max_bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local function exceeds(items, bytes, added, gained)
  bytes = max_bytes > 0 and bytes
  local has = max_items > 0 and (added > 0 or not bytes) and redis.call('HLEN', items) or 0
  if max_bytes > 0 and not bytes and has <= max_items then
    -- They were not counted so far. (A wishlist with more items than it may have takes nothing anyway.)
    bytes = 0
    for _, field in ipairs(redis.call('HKEYS', items)) do
      bytes = bytes + redis.call('HSTRLEN', items, field)
    end
  end
  local sum = bytes and bytes + gained
  local is_over = added > 0 and max_items > 0 and has + added > max_items
  return is_over or gained > 0 and sum and sum > max_bytes, sum
end

-- An event's id stands at the start of its line.
local function id_of(line)
  return string.sub(line, 14, 49)
end

local NONE = {}
local answers, n, i, arg, line_to = {}, 0, 0, 10, 0
for first in next_line do
  i = i + 1
  local kind, name, answer = sub(first, 1, 1), sub(first, 2), nil
  if kind == 's' then
    local profile, outbox = KEYS[k + 1], KEYS[k + 2]
    k = k + 2
    answer = redis.call('HDEL', outbox, next_line()) == 0 and redis.call('HGET', profile, 'heir')
  else
    local profile, items, outbox = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
    k = k + (space and 2 or 3)
    local record = KEYS[k + 1]
    local expected = name ~= '' and next_line()
    local recorded_s = next_line()
    k = k + (recorded_s == '' and 0 or 1)
    local field, born, content, code, is_put, own, wanted
    local line_from, line = line_to + 1, nil
    if kind ~= 'r' then
      line_to = find(events_given, '\n', line_from, true)
    end
    if kind == 'a' then
      arg = arg + 1
      field, born, content = next_line(), next_line(), ARGV[arg]
    elseif kind == 'c' then
      code, is_put, own = next_line(), next_line() == '1', next_line()
    else
      wanted = {}
      for w = 1, 3 * next_line() do
        wanted[w] = next_line()
      end
    end

    local facts, door = nil, nil
    if name ~= '' then
      k = k + 1
      door = KEYS[k]
      local field = redis.call('HGET', door, '')
      if expected == '' then
        answer = field and '@' .. field
      elseif field ~= expected then
        answer = '@' .. (field or '')
      end
    end
    -- An identity at home has no heir.
    if not answer and (name == '' or expected ~= '' or kind == 'c') then
      facts = redis.call('HMGET', profile, 'heir', 'itemBytes', 'share', 'owner')
      -- An identity at home has no owner. A removal makes nothing, and is also asked for at a guest's own profile.
      answer = facts[1] or kind ~= 'r' and (name == '' or expected ~= '') and not facts[4] and '@'
    end

    if not answer then
      -- What is there, and what it would take.
      local value, has, added, gained, leaving, events = '', false, 0, 0, NONE, NONE
      local done = recorded_s ~= '' and redis.call('GET', record)
      local mine, others, is_full = NONE, NONE, false
      if not space then
        mine, others, is_full = pending_in(outbox, recorded_s ~= '' and record or '')
      end
      if kind == 'a' then
        local there = redis.call('HGET', items, field)
        if there then
          value = sub(there, 1, find(there, '\n', 1, true) - 1)
        end
        content = (there and value or born) .. '\n' .. content
        added, gained = there and 0 or 1, #content - #(there or '')
      elseif kind == 'c' then
        has = facts[3]
        if has then
          line = string.gsub(string.sub(events_given, line_from, line_to), string.gsub(code, '%-', '%%-'), has)
          value = has
        end
      else
        leaving, events = {}, {}
        for w = 1, #wanted, 3 do
          local there = redis.call('HGET', items, wanted[w])
          if there then
            leaving[#leaving + 1], gained = wanted[w], gained - #there
            events[#leaving] = (wanted[w + 2] == '' and wanted[w + 1] or fill(wanted[w + 1], wanted[w + 2], there)) .. '\n'
          end
        end
      end

      local is_whole = kind ~= 'r' and space and not done and not line
      if done then
        events = mine
      elseif kind ~= 'r' and not is_whole then
        events = { line or string.sub(events_given, line_from, line_to) }
      end
      local is_over, bytes, needed = false, false, is_whole and line_to - line_from + 1 or 0
      if gained ~= 0 and not done then
        facts = facts or redis.call('HMGET', profile, 'heir', 'itemBytes')
        is_over, bytes = exceeds(items, facts[2], added, gained)
      end
      for e = 1, #events do
        needed = needed + #events[e]
      end

      if done == '-' then
        answer = '-'
      elseif is_full and not done and #events > 0 then
        answer = '~\n' .. table.concat(others)
      elseif is_over then
        answer = -6
      elseif space and needed > space then
        answer = -3
      elseif kind == 'c' and not (done or has or is_put or space) then
        answer = '?'
      else
        if done then
          value = done
        elseif kind == 'a' then
          redis.call('HSET', items, field, content)
        elseif kind == 'c' and not has then
          redis.call('HSET', profile, 'share', code)
          if space then
            redis.call('SET', items, own)
          end
        elseif kind == 'r' then
          value = #leaving > 0 and string.format('%d', #leaving) or ''
          for _, item in ipairs(leaving) do
            redis.call('HDEL', items, item)
          end
        end
        if recorded_s ~= '' and not done then
          redis.call('SET', record, value ~= '' and value or born or code or '0', 'EX', recorded_s)
        end
        if bytes then
          redis.call('HSET', profile, 'itemBytes', string.format('%.0f', math.max(bytes, 0)))
        end
        for e = 1, #events do
          if space then
            lines[#lines + 1] = events[e]
          else
            local of = recorded_s ~= '' and record or ''
            redis.call('HSET', outbox, id_of(events[e]), stamp .. '\n' .. of .. '\n' .. events[e])
          end
        end
        if door and expected == '' then
          if kind ~= 'r' then
            make_known(door, profile)
          end
          retain(door, tonumber(ARGV[8]))
        end
        if not space then
          answer = '=' .. value .. '\n' .. table.concat(events) .. table.concat(others)
        else
          size, space = size + needed, space - needed
          if is_whole and #lines == 0 and line_from == taken + 1 then
            taken, count = line_to, count + 1
          elseif is_whole then
            lines[#lines + 1] = string.sub(events_given, line_from, line_to)
          end
          answer = (done or value ~= (kind == 'r' and '1' or '')) and '=' .. value
        end
      end
    end
  end
  if answer then
    answers[n + 1], answers[n + 2] = i, answer
    n = n + 2
  end
end

if size > 0 then
  if taken < #events_given or #lines > 0 then
    events_given = string.sub(events_given, 1, taken) .. table.concat(lines)
  end
  append(count + #lines, events_given)
end
return remembered(answers)
