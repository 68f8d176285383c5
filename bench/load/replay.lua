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
  int open(const char *path, int flags, ...);
  void *mmap(void *address, size_t length, int protection, int flags, int file, long offset);
]]
local MONOTONIC = 1
local LOOK_EVERY = 16 -- requests between looks at the clock

local time = ffi.new('struct wm_time')
local function now()
  ffi.C.clock_gettime(MONOTONIC, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

-- The pool is memory that Lua does not count, and so few answered requests wait for its garbage collector. LuaJIT hashes
-- a few bytes of a string, which are the same in many requests: with 50,000 of them alive, each new one is compared with
-- thousands, and wrk is slower than what it measures.
local bytes, starts, count
local index, limit, seconds, connections
local parked, deadline = 0, nil
sent, started, stopped = -1, 0, 0 -- read by done(); wrk does not send the first request that it asks for

local READ_ONLY, PRIVATE = 1, 2
local function map(path)
  local file = assert(io.open(path, 'rb'))
  local length = file:seek('end')
  file:close()
  local descriptor = ffi.C.open(path, 0)
  return ffi.cast('const char *', ffi.C.mmap(nil, length, READ_ONLY, PRIVATE, descriptor, 0)), length
end

function init(args)
  local length
  bytes, length = map(args[1])
  local offsets = { 0 }
  for at = 0, length - 1 do
    if bytes[at] == 0 then
      offsets[#offsets + 1] = at + 1
    end
  end
  count = #offsets - 1
  starts = ffi.new('int32_t[?]', #offsets)
  for n = 1, #offsets do
    starts[n - 1] = offsets[n]
  end
  index = tonumber(args[2]) % count
  limit = tonumber(args[3])
  limit = limit > 0 and limit or math.huge
  seconds = tonumber(args[4])
  connections = tonumber(args[5])
  collectgarbage()
end

-- n from 0 up
local function nth(n)
  return ffi.string(bytes + starts[n], starts[n + 1] - starts[n] - 1)
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
