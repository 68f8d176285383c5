// The floor's script, and how its arguments are spelled.

/** Applies a batch once: it refuses one that is late or older than the lane's last, and answers a repeated one again. */
export const SCRIPT = `
local seq = tonumber(ARGV[1])
local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 > tonumber(ARGV[2]) then return -1 end
local last = redis.call('GET', KEYS[1])
if last then
  local last_seq, answers = cmsgpack.unpack(last)
  if last_seq == seq then return answers elseif last_seq > seq then return -2 end
end
local answers, n, i = {}, 0, 1
for handle in string.gmatch(ARGV[4], '([^\\n]*)\\n') do
  i = i + 1
  local result = redis.pcall('HINCRBY', KEYS[i], handle, '1')
  if type(result) == 'table' and result.err then
    answers[n + 1], answers[n + 2] = i, result.err
    n = n + 2
  end
end
redis.call('SET', KEYS[1], cmsgpack.pack(seq, answers), 'EX', ARGV[3])
return answers`;

export function spell(arg: string | number): string {
  const ascii = String(arg);
  return `$${ascii.length}\r\n${ascii}\r\n`;
}
