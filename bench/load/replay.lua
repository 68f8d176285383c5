-- Replays a pool of requests in order, from a file in which each ends with a zero byte, over and over.
--
-- args: file · index of the first request (from 0) · most requests (0: no limit) · seconds · connections
--
-- When its time is over it sends no more requests and waits for the outstanding answers: each connection is given an
-- empty request, which wrk never sends. Once every connection has one, all requests are answered; the script prints
-- "drained", and the reader of its output interrupts wrk. So every request that a server handled is counted. wrk alone
-- drops the requests that are outstanding when its time is over.

local ffi = require('ffi')
ffi.cdef [[
  struct wm_time { long seconds; long nanoseconds; };
  int clock_gettime(int clock, struct wm_time *time);
]]
local MONOTONIC = 1
local LOOK_EVERY = 16 -- requests between looks at the clock

local time = ffi.new('struct wm_time')
local function now()
  ffi.C.clock_gettime(MONOTONIC, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

local pool, index, limit, seconds, connections
local parked, deadline = 0, nil
sent, started, stopped = -1, 0, 0 -- read by done(); the first request is only looked at by wrk, not sent

function init(args)
  local file = assert(io.open(args[1], 'rb'))
  pool = {}
  for request in file:read('*a'):gmatch('%Z+') do
    pool[#pool + 1] = request
  end
  file:close()
  index = tonumber(args[2]) % #pool
  limit = tonumber(args[3])
  limit = limit > 0 and limit or math.huge
  seconds = tonumber(args[4])
  connections = tonumber(args[5])
end

function request()
  if sent < 0 then
    sent = 0
    return pool[1]
  end
  if sent % LOOK_EVERY == 0 and stopped == 0 then
    local at = now()
    if not deadline then
      started, deadline = at, at + seconds
    end
    if at >= deadline then
      limit = sent
    end
  end
  if sent >= limit then
    if stopped == 0 then
      stopped = now()
    end
    parked = parked + 1
    if parked == connections then
      io.write('drained\n')
      io.flush()
    end
    return ''
  end
  sent = sent + 1
  index = index % #pool + 1
  return pool[index]
end

local threads = {}
function setup(thread)
  threads[#threads + 1] = thread
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'result {"sent":%d,"answered":%d,"refused":%d,"broken":%d,"seconds":%.6f,"p50Us":%d,"p99Us":%d,"maxUs":%d}\n',
    threads[1]:get('sent'), summary.requests, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    threads[1]:get('stopped') - threads[1]:get('started'),
    latency:percentile(50), latency:percentile(99), latency.max
  ))
end
