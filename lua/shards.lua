-- How many streams events are spread over, and since when; more of them from a moment ahead, where more are wanted. By then
-- every process has asked, so that all change at the same moment of this server's clock.
--
-- KEYS[1] meta
--
-- ARGV[1] shards wanted; 0: this only asks
-- ARGV[2] milliseconds until a raise holds
--
-- Returns {milliseconds of this server's clock, raises}: `<shards>@<milliseconds>`, separated by spaces, the first one
-- at 0; empty where there is no deployment. Their number never falls: a shard once used must go on being flushed.
-- Errors: none.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local meta, wanted = KEYS[1], tonumber(ARGV[1])
local facts = redis.call('HMGET', meta, 'shards', 'raises')
local shards = tonumber(facts[1] or 0)
local raises = facts[2] or shards > 0 and shards .. '@0' or ''
if shards > 0 and wanted > shards then
  -- After a raise that does not hold yet, not before it.
  local from = math.max(now, tonumber(string.match(raises, '@(%d+)$')))
  raises = raises .. string.format(' %d@%.0f', wanted, from + ARGV[2])
  redis.call('HSET', meta, 'shards', ARGV[1], 'raises', raises)
end
return { string.format('%.0f', now), raises }
