#!lua flags=allow-oom
-- Records the results of attempts.
-- KEYS[1..4] queue, taken, state, dead letters
-- ARGV[1] maximum bytes of dead letters
-- ARGV[2..] five each: id; `done`, `again`, `dead`, `drop`, or `forget` (a dead letter of an erased visitor); attempts;
--   milliseconds until the retry; error
-- Returns the time since which all attempts have failed, milliseconds, or 0.

local queue, taken, state, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if redis.call('EXISTS', state) == 0 then
  return 0
end
local most = tonumber(ARGV[1])
-- @include deliveries

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local delivered, failures = 0, 0
for i = 2, #ARGV, 5 do
  local id, outcome, why = ARGV[i], ARGV[i + 1], ARGV[i + 4]
  local from = queue
  if outcome == 'forget' then
    from = dead
  end
  local entry = redis.call('XRANGE', from, id, id)[1]
  local line = entry and entry[2][2]
  if outcome == 'done' then
    redis.call('HSET', state, 'lastSuccessAt', now)
    redis.call('HDEL', state, 'failingSince')
    delivered = delivered + 1
  elseif outcome == 'again' or outcome == 'dead' then
    redis.call('HSET', state, 'lastFailureAt', now, 'lastError', why)
    redis.call('HSETNX', state, 'failingSince', now)
    failures = failures + 1
  end
  if not line then
    -- dead-lettered or erased while in flight
  elseif outcome == 'again' then
    redis.call('ZADD', taken, string.format('%.0f', (now + ARGV[i + 3]) * 16 + ARGV[i + 2]), id)
  elseif outcome == 'dead' then
    dead_letter(id, line, why)
  elseif outcome == 'forget' then
    redis.call('XDEL', dead, id)
    redis.call('HINCRBY', state, 'deadBytes', 0 - #line)
  else
    remove(id, line)
  end
end

if delivered + failures > 0 then
  redis.call('HINCRBY', state, 'delivered', delivered)
  redis.call('HINCRBY', state, 'failures', failures)
  -- A ring of the last hour, in steps of five minutes.
  local five = math.floor(now / 300000)
  local slot = 'recent' .. five % 13
  local of, before, failed = string.match(redis.call('HGET', state, slot) or '', '(%d+) (%d+) (%d+)')
  if tonumber(of) ~= five then
    before, failed = 0, 0
  end
  redis.call('HSET', state, slot, five .. ' ' .. before + delivered .. ' ' .. failed + failures)
end
return tonumber(redis.call('HGET', state, 'failingSince') or 0)
