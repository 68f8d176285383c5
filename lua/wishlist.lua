-- Changes wishlists: a batch of operations in one call. A change and its event are both made, or neither.
--
-- On one server the identity's door is checked and the event is appended to the stream in the same step. On a cluster
-- these are in other slots: the event waits in the profile's outbox, and its sender brings it to the stream. Either way
-- an operation is remembered until its sender has the reply, on a cluster by its event. One that is asked for again,
-- because its reply was lost, answers as the first time and makes no second event.
--
-- KEYS[1]  lane   KEYS[2..4]  events and events:state of the shard, operations without a reply; left out on a cluster
-- KEYS[5...]  the keys of each operation, in order (on a cluster from KEYS[2] on):
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
-- ARGV[8]  milliseconds for which the same operation is taken to be under way in another request
-- ARGV[9]  each a r c in words, a line each: who does what; asked for again it has the same words
-- ARGV[10] the operations, in lines. The first one: the kind, one letter. A r c have the identity with it,
--          `s:<session>` or `c:<customer>`, or nothing where its door was asked before; after an identity comes the room
--          that it is expected at, or empty where it is expected at home. As capitals they do not wait for the same operation in another request. Then for a r c
--          seconds for which its record is kept, or empty where it has none, and:
--            a  add or update an item: its field, `<item id> <added at>`
--            r  remove items: number of items; for each its field, the event's line, and fields of the item that make its
--               payload; where there are any, the line has no columns of the item and no end
--            c  share: a code that was drawn, 1 where its key is written already, the profile's id
--            s  an event of an outbox is in the stream, and its sender has the reply: id of the event
--            k  senders have their replies (on one server): number of operations, and each in words
-- ARGV[11] the events of a and c, a line each; that of c has the drawn code
-- ARGV[12] seconds for which a guest stays after its last write; 0: for ever
-- ARGV[13...]  for each a `<updated at>\n<content>`
--
-- An item is `<item id> <added at>\n<updated at>\n<content, JSON>`; its first line stays when it is added again. The
-- outbox holds event id -> `<milliseconds of this server's clock>\n<operation in words>\n<line>`, and operations without
-- a reply are held as words -> milliseconds.
--
-- Returns a flat list {i, answer, i, answer, ...} of the operations that have one. Those missing were done as asked.
--   `@<field>`: the identity is elsewhere (see visits.lua)
--   the heir's id, `!` before it while the merge is under way: the profile was merged away; `@`: it is being erased, or
--     there is no such room (any more)
--   `=<value>`: done, now or before. The value is the `<item id> <added at>` or the code that was there, or how many
--     items were removed (without a record `1` where that was before); else empty. With a record it is what that says. On a cluster a newline and the events that the sender appends, as lines
--   `~\n<line>\n...`: not now: the same operation is under way in another request, or the outbox is full of these events
--   `?`: the key of the drawn code must be written first
--   `-`: the operation is done at another place now (its record was fenced)
--   FULL -3: the stream is at its high-water mark; TOO_MANY -6: too many items, or bytes
-- Where it was not done nothing has changed. `r` makes no unknown identity known.
-- Errors: EXPIRED -1, SUPERSEDED -2 (the lane is past this batch); nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

-- Then no caller comes back for an operation.
local LEFT_BEHIND_MS = 60000
-- Of large batches one in so many looks for what was left there.
local LARGE, LOOK_EVERY = 8, 8
-- Bounds what a full stream can make an outbox hold.
local MAX_PENDING = 64

-- @include lane
-- @include append
-- @include retain
-- @include known
-- A number is spelled each time that it is given to a command, with all the digits that a fraction might have.
local stamp = string.format('%.0f', now)

-- A pattern would look at every character.
local find, sub = string.find, string.sub
local function reader(text)
  local from = 1
  return function()
    local to = find(text, '\n', from, true)
    if to then
      local start = from
      from = to + 1
      return sub(text, start, to - 1)
    end
  end
end
local next_line = reader(ARGV[10])
local operations = {}
for words in reader(ARGV[9]) do
  operations[#operations + 1] = words
end

-- On one server: what the stream still takes, what it is given, and since when operations have no reply.
local space, size, since, unanswered, k = tonumber(ARGV[4]), 0, {}, {}, 1
-- A text that is used as it was given is hashed once by Lua: so many lines from the start of it, and others after them.
local events_given, taken, count, lines = ARGV[11], 0, 0, {}
if space then
  space = space - (redis.call('HGET', KEYS[3], 'bytes') or 0)
  k = 4
  for o, at in ipairs(#operations > 0 and redis.call('HMGET', KEYS[4], unpack(operations)) or {}) do
    since[operations[o]] = at
  end
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

-- Events of an operation that wait in an outbox, and the age of the youngest; those that any operation takes along,
-- because they were left behind; whether no more fit.
local function pending_in(outbox, words)
  local pending, mine, others, youngest = redis.call('HGETALL', outbox), {}, {}, math.huge
  local is_full = #pending / 2 >= MAX_PENDING
  for e = 1, #pending, 2 do
    local id = pending[e]
    local at, of, line = string.match(pending[e + 1], '^(%d+)\n([^\n]*)\n(.*)$')
    local age = now - at
    if age < 0 then
      -- The clock was set back: nothing is under way for as long as the jump.
      age = 0
      redis.call('HSET', outbox, id, stamp .. '\n' .. of .. '\n' .. line)
    end
    if of == words then
      mine[#mine + 1] = line
      youngest = math.min(youngest, age)
    elseif is_full or age >= LEFT_BEHIND_MS then
      others[#others + 1] = line
    end
  end
  return mine, youngest, others, is_full
end

-- Whether a wishlist may not take this, and its bytes afterwards, where they are counted.
local max_items, max_bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
local function exceeds(items, bytes, added, gained)
  bytes = max_bytes > 0 and bytes
  local has = max_items > 0 and (added > 0 or not bytes) and redis.call('HLEN', items) or 0
  if max_bytes > 0 and not bytes and has <= max_items then
    -- From before they were counted. (A wishlist with more items than it may have takes nothing anyway.)
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

local NONE, NEVER, PATIENCE_MS = {}, math.huge, tonumber(ARGV[8])
local answers, n, i, o, arg, line_to = {}, 0, 0, 0, 12, 0
for first in next_line do
  i = i + 1
  local kind, name, answer = sub(first, 1, 1), sub(first, 2), nil
  local patience_ms = 0
  if kind > 'Z' then
    patience_ms = PATIENCE_MS
  else
    kind = string.lower(kind)
  end
  if kind == 'k' then
    local all = {}
    for w = 1, next_line() do
      all[w] = next_line()
      since[all[w]] = nil
    end
    redis.call('HDEL', KEYS[4], unpack(all))
  elseif kind == 's' then
    local profile, outbox = KEYS[k + 1], KEYS[k + 2]
    k = k + 2
    answer = redis.call('HDEL', outbox, next_line()) == 0 and redis.call('HGET', profile, 'heir')
  else
    local profile, items, outbox = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
    k = k + (space and 2 or 3)
    local record = KEYS[k + 1]
    o = o + 1
    local words, room = operations[o], name ~= '' and next_line()
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
      if room == '' then
        answer = field and '@' .. field
      elseif string.sub(field or '', 1, #room + 1) ~= room .. ' ' then
        answer = '@' .. (field or '')
      end
    end
    -- An identity at home has no heir.
    if not answer and (name == '' or room ~= '' or kind == 'c') then
      facts = redis.call('HMGET', profile, 'heir', 'itemBytes', 'share', 'owner')
      -- An identity at home has no owner. A removal makes nothing, and is also asked for at a guest's own profile.
      answer = facts[1] or kind ~= 'r' and (name == '' or room ~= '') and not facts[4] and '@'
    end

    if not answer then
      -- What is there, whether what is asked for holds already, and what it would take.
      local value, holds, added, gained, leaving, events = '', false, 0, 0, NONE, NONE
      local done = recorded_s ~= '' and redis.call('GET', record)
      local mine, youngest, others, is_full = NONE, NEVER, NONE, false
      if not space then
        mine, youngest, others, is_full = pending_in(outbox, words)
      elseif since[words] then
        youngest = math.max(now - since[words], 0)
      end
      if kind == 'a' then
        local there = redis.call('HGET', items, field)
        if there then
          value = sub(there, 1, find(there, '\n', 1, true) - 1)
          holds = youngest < NEVER and string.match(there, '\n([^\n]*)$') == string.match(content, '\n(.*)$')
        end
        content = (there and value or born) .. '\n' .. content
        added, gained = there and 0 or 1, #content - #(there or '')
      elseif kind == 'c' then
        holds = facts[3]
        if holds then
          line = string.gsub(string.sub(events_given, line_from, line_to), string.gsub(code, '%-', '%%-'), holds)
          value = holds
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
        holds = #leaving == 0 or recorded_s ~= ''
      end

      local is_again = done or holds and youngest < NEVER
      local is_whole = kind ~= 'r' and space and not is_again and not line
      if is_again then
        events = mine
      elseif kind ~= 'r' and not is_whole then
        events = { line or string.sub(events_given, line_from, line_to) }
      end
      local is_over, bytes, needed = false, false, is_whole and line_to - line_from + 1 or 0
      if gained ~= 0 and not is_again then
        facts = facts or redis.call('HMGET', profile, 'heir', 'itemBytes')
        is_over, bytes = exceeds(items, facts[2], added, gained)
      end
      for e = 1, #events do
        needed = needed + #events[e]
      end

      if done == '-' then
        answer = '-'
      elseif is_again and youngest < patience_ms then
        answer = '~\n'
      elseif is_full and not is_again and #events > 0 then
        answer = '~\n' .. table.concat(mine) .. table.concat(others)
      elseif is_over then
        answer = -6
      elseif space and needed > space then
        answer = -3
      elseif kind == 'c' and not (holds or is_put or space) then
        answer = '?'
      else
        if is_again then
          value = done or kind == 'r' and '1' or value
        elseif kind == 'a' then
          redis.call('HSET', items, field, content)
        elseif kind == 'c' and not holds then
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
            redis.call('HSET', outbox, id_of(events[e]), stamp .. '\n' .. words .. '\n' .. events[e])
          end
        end
        if door and room == '' then
          if kind ~= 'r' and not is_known(door, profile) then
            redis.call('HSET', profile, 'known', '1')
          end
          if find(door, '}:v:s', 1, true) then
            retain(door, tonumber(ARGV[12]))
          end
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
          if needed > 0 or is_again then
            since[words] = now
            unanswered[#unanswered + 1], unanswered[#unanswered + 2] = words, stamp
          end
          answer = value ~= (kind == 'r' and '1' or '') and '=' .. value
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
if #unanswered > 0 then
  redis.call('HSET', KEYS[4], unpack(unanswered))
  -- What a server that ended has left there goes, one at a time. To draw one takes longer than to make a change.
  if #operations < LARGE or seq % LOOK_EVERY == 0 then
    local words = redis.call('HRANDFIELD', KEYS[4])
    if now - redis.call('HGET', KEYS[4], words) > LEFT_BEHIND_MS then
      redis.call('HDEL', KEYS[4], words)
    end
  end
end
return remembered(answers)
