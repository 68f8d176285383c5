#!lua flags=allow-oom
-- A flusher says that it is there and how many streams it owns, and is told of the others: so they share evenly.
--
-- KEYS[1] flushers   KEYS[2] meta (in the same slot)
--
-- ARGV[1] owner, as in flush-claim.lua
-- ARGV[2] streams that it owns; below 0: it ends
-- ARGV[3] milliseconds of silence after which a flusher counts as gone
--
-- Returns a flat list {owner, streams, owner, streams, ...} of those that are there, this one among them; an empty one, and
-- nothing was done, where Redis has lost the deployment.
-- Errors: none.

if redis.call('EXISTS', KEYS[2]) == 0 then
  return {}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[2]) < 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now) .. ' ' .. ARGV[2])
end

local all, here = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local beat, streams = string.match(all[i + 1], '^(%d+) (%d+)$')
  -- Where this server's clock was set back, a flusher that is gone would seem to be there until that has caught up.
  if math.abs(now - beat) <= tonumber(ARGV[3]) then
    here[#here + 1], here[#here + 2] = all[i], tonumber(streams)
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return here
