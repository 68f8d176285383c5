-- Replays a pool of requests in order, from a file in which each ends with a zero byte, over and over.
--
-- args: file, index of the first request (from 0), limit of requests (0: none), seconds, connections
--
-- At the end it waits for the outstanding answers: each connection gets an empty request, which wrk never sends. Once every
-- connection has one, the script prints "drained" and the reader of its output interrupts wrk. So every request that a
-- server handled is counted; wrk alone drops those that are outstanding at the end.

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

-- The pool stays one text. LuaJIT hashes a few bytes of each string, which are the same in many requests: to hold all of
-- them as strings takes time that grows with the square of their number.
local text, bytes, starts, count
local index, limit, seconds, connections
local parked, deadline = 0, nil
sent, started, stopped = -1, 0, 0 -- read by done(); wrk does not send the first request that it asks for

function init(args)
  local file = assert(io.open(args[1], 'rb'))
  text = file:read('*a')
  file:close()
  bytes = ffi.cast('const char *', text)
  starts = { 0 }
  while starts[#starts] < #text do
    starts[#starts + 1] = text:find('\0', starts[#starts] + 1, true)
  end
  count = #starts - 1
  index = tonumber(args[2]) % count
  limit = tonumber(args[3])
  limit = limit > 0 and limit or math.huge
  seconds = tonumber(args[4])
  connections = tonumber(args[5])
end

-- n from 0 up
local function nth(n)
  return ffi.string(bytes + starts[n + 1], starts[n + 2] - starts[n + 1] - 1)
end

function request()
  if sent < 0 then
    sent = 0
    return nth(0)
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
  index = index + 1
  return nth((index - 1) % count)
end

local threads = {}
function setup(thread)
  threads[#threads + 1] = thread
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'result {"sent":%d,"answered":%d,"refused":%d,"broken":%d,"seconds":%.6f,"p50Us":%d,"p99Us":%d}\n',
    threads[1]:get('sent'), summary.requests, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    threads[1]:get('stopped') - threads[1]:get('started'),
    latency:percentile(50), latency:percentile(99)
  ))
end
