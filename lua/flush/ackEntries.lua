#!lua flags=allow-oom
-- Deletes entries whose rows are in ClickHouse, and adds dead letters. A retry adds these twice.
-- KEYS[1..3] stream, its state, dead letters
-- ARGV[1] consumer group   ARGV[2] number of dead letters, then four for each: `line`, ClickHouse's code, reason, line
--   without newline; or `entry`, 0, reason, a foreign entry as JSON
-- ARGV[..] three per entry: id, rows, bytes of its lines
-- Returns the number of deleted entries.

local stream, state, dead = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', stream) == 0 then
  return 0 -- the server has lost its data
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local letters_end = 2 + 4 * ARGV[2]
for i = 3, letters_end, 4 do
  redis.call('XADD', dead, '*', 'code', ARGV[i + 1], 'reason', ARGV[i + 2], 'time', now, ARGV[i], ARGV[i + 3])
end

local ids, removed, rows, bytes = {}, 0, 0, 0
for i = letters_end + 1, #ARGV, 3 do
  ids[#ids + 1] = ARGV[i]
  if redis.call('XDEL', stream, ARGV[i]) == 1 then
    removed, rows, bytes = removed + 1, rows + ARGV[i + 1], bytes + ARGV[i + 2]
  end
end
redis.call('XACK', stream, ARGV[1], unpack(ids))

if redis.call('XLEN', stream) == 0 then
  -- Resets the counts, because entries may have been deleted by hand.
  redis.call('HSET', state, 'events', 0, 'bytes', 0)
elseif removed > 0 then
  -- `0 - rows` and not `-rows`, because Lua writes -0 as `-0`, which Redis refuses.
  redis.call('HINCRBY', state, 'events', 0 - rows)
  redis.call('HINCRBY', state, 'bytes', 0 - bytes)
end
return removed
