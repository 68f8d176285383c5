#!lua flags=allow-oom
-- Ends a batch that is in ClickHouse: its entries leave the stream, its figures the pending ones, its
-- manifest the state, and the lines that ClickHouse refused become dead letters, as do entries that were not
-- ours. All of it or nothing.
-- A batch begins at the head of the stream: nothing else removes entries.
--
-- KEYS[1] events   KEYS[2] events:state   KEYS[3] events:dead
--
-- ARGV[1] epoch
-- ARGV[2] token of the batch, as in its manifest
-- ARGV[3...] for each dead letter four arguments: `line`, ClickHouse's error code, the reason, the line without its
--            newline; or `entry`, 0, the reason, what the entry was (it can't be retried: it is no event)
--
-- Returns 1.
-- Errors: FENCED -4, MANIFEST -5 (the batch in flight is another one, or there is none); nothing was done.

local state = redis.call('HMGET', KEYS[2], 'epoch', 'manifest')
if state[1] ~= ARGV[1] then
  return -4
end
local manifest = state[2] and cjson.decode(state[2])
if not manifest or manifest.token ~= ARGV[2] then
  return -5
end

redis.call('XTRIM', KEYS[1], 'MINID', '=', manifest.last)
redis.call('XDEL', KEYS[1], manifest.last)
-- (Not `-manifest.rows`: of 0 that is `-0`, which is no integer to Redis.)
redis.call('HINCRBY', KEYS[2], 'events', 0 - manifest.rows)
redis.call('HINCRBY', KEYS[2], 'bytes', 0 - manifest.bytes)
redis.call('HDEL', KEYS[2], 'manifest')
if redis.call('XLEN', KEYS[1]) == 0 then
  -- Entries may have been removed by hand: left in the figures, they would count against the high-water mark.
  redis.call('HSET', KEYS[2], 'events', 0, 'bytes', 0)
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 3, #ARGV, 4 do
  redis.call('XADD', KEYS[3], '*', 'code', ARGV[i + 1], 'reason', ARGV[i + 2], 'time', now, ARGV[i], ARGV[i + 3])
end
return 1
