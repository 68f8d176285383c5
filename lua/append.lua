-- Appends one batch of event lines to a shard's stream, or refuses it at the high-water mark.
--
-- KEYS[1] lane   KEYS[2] events   KEYS[3] events:state   (all of one shard, one hash tag)
--
-- ARGV[1] sequence number of the batch in its lane
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] high-water mark: pending bytes that may not be passed
-- ARGV[5] number of events
-- ARGV[6] that many JSONEachRow lines, each ended by a newline
--
-- Returns 1. The same batch sent again returns 1, however late, and appends nothing.
-- Errors: EXPIRED -1, SUPERSEDED -2, FULL -3 (the stream is at its high-water mark); nothing was done.

local seq = tonumber(ARGV[1])
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
if last == seq then
  return 1
elseif last > seq then
  return -2
end

local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 > tonumber(ARGV[2]) then
  return -1
end

local pending = tonumber(redis.call('HGET', KEYS[3], 'bytes') or 0)
if pending + #ARGV[6] > tonumber(ARGV[4]) then
  return -3
end

redis.call('XADD', KEYS[2], '*', 'n', ARGV[5], 'd', ARGV[6])
redis.call('HINCRBY', KEYS[3], 'events', ARGV[5])
redis.call('HINCRBY', KEYS[3], 'bytes', #ARGV[6])
redis.call('SET', KEYS[1], seq, 'EX', ARGV[3])
return 1
