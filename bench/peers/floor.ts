// The floor: the least code on uWebSockets.js and ioredis that does all that the contract asks of a warm, anonymous
// visit: headers, media type, bounds, UTF-8, JSON schema, normalised ids, profile id, request id, and one numbered
// batch with a deadline per turn of the event loop, whose script does one HINCRBY per visit. Callback style, one object
// per request, which is also the batch's operation; profile ids of a turn are made together, and so are its answers, as the
// service does (src/turn.ts). It leaves out what a warm visit does not need (credentials, bodies
// in pieces, retries, merges, overload: such a request loses its connection), so nothing real can be cheaper by much.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { Ajv } from 'ajv';
import { Command, Redis } from 'ioredis';
import { loadUws } from '../../src/http/uws.js';

// What a valid visit is.

interface Body {
  readonly identity: { readonly sessionId: string };
  readonly productHandle: string;
}

const MAX_BODY = 65_536;
const MAX_ID_BYTES = 255;
const MEDIA_TYPE = /^(application\/json|text\/plain)[ \t]*(;|$)/i;
const CONTROL = /\p{Cc}/u;
const JUNK = new Set('null,undefined,nan,0,-1,none,guest,anonymous,[object object],true,false'.split(','));
const LONGEST_JUNK = 15;

function fits(text: string, max: number): boolean {
  return text.length * 3 <= max || Buffer.byteLength(text) <= max;
}

function isPlain(text: string): boolean {
  return !CONTROL.test(text) && text.isWellFormed();
}

function normalise(id: string): string {
  const text = id.trim();
  return text.startsWith('gid:') ? text.slice(text.lastIndexOf('/') + 1) : text;
}

function isId(text: string): boolean {
  const id = normalise(text);
  const isJunk = id.length <= LONGEST_JUNK && JUNK.has(id.toLowerCase());
  return id !== '' && fits(id, MAX_ID_BYTES) && isPlain(id) && !isJunk;
}

const id = { type: ['string', 'null'], format: 'id' };
const text = { type: ['string', 'null'], format: 'text' };

const isVisit = new Ajv({ allErrors: true, allowUnionTypes: true })
  .addFormat('id', isId)
  .addFormat('handle', (handle: string) => handle !== '' && fits(handle, MAX_ID_BYTES) && isPlain(handle))
  .addFormat('text', (value: string) => fits(value, 64) && isPlain(value))
  .compile<Body>({
    type: 'object',
    required: ['identity', 'productHandle'],
    properties: {
      identity: {
        type: 'object',
        required: ['sessionId'],
        properties: {
          customerId: { type: 'null' },
          sessionId: { ...id, type: 'string' },
          device: text,
          locale: text,
          email: text,
          firstName: text,
          lastName: text,
        },
      },
      productHandle: { type: 'string', format: 'handle' },
    },
  });

// Profile ids: bucket and hash, cut from one digest.

const SALT = 'a salt of fixed length!!';
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const VALUE_OF = new Uint8Array(128);
for (let value = 0; value < DIGITS.length; value++) VALUE_OF[DIGITS.charCodeAt(value)] = value;
const BUCKETS = 16_384;
// What buckets are named of: small tables, which stay in the processor's cache.
const HIGH_DIGITS = Array.from({ length: Math.ceil(BUCKETS / 36) }, (_, high) =>
  high === 0 ? '' : high.toString(36),
);
const LAST_DIGIT = Array.from({ length: 36 }, (_, low) => low.toString(36));

// Batches. A lane is a name under which one batch at a time is sent; Redis keeps the lane's last number and answer.

const LANES = 4;
const DEADLINE_MS = 400;
const REMEMBERED_S = 60;
const SCRIPT = `
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

const redis = new Redis(process.env.REDIS_URL ?? '');
const sha = (await redis.script('LOAD', SCRIPT)) as string;

const freeLanes = Array.from({ length: LANES }, (_, lane) => `fl:{all}:lane:${process.pid}.${lane}`);
let sequence = 0;
let isScheduled = false;
let checked: Visit[] = [];
let answered: Visit[] = [];
let batch: Visit[] = [];
let keys = '';
let handles = '';

/** A call that is spelled as it is put together: ioredis would look at each key. */
class SpelledCommand extends Command {
  readonly #bytes: Buffer;

  constructor(lane: string, bytes: Buffer) {
    super('evalsha', ['', '1', lane], { replyEncoding: 'utf8' });
    this.#bytes = bytes;
  }

  override toWritable(): Buffer {
    return this.#bytes;
  }
}

function spell(arg: string | number): string {
  const ascii = String(arg);
  return `$${ascii.length}\r\n${ascii}\r\n`;
}

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(readAgain);
}

/** Sockets are read twice for each batch. */
function readAgain(): void {
  setImmediate(endTurn);
  answer();
}

function endTurn(): void {
  isScheduled = false;
  for (const visit of checked) visit.enter();
  checked = [];
  if (batch.length > 0) sendBatch();
  answer(); // those whose reply came with the second read
}

function answer(): void {
  const visits = answered;
  answered = [];
  for (const visit of visits) visit.answer();
}

function sendBatch(): void {
  const lane = freeLanes.pop();
  if (lane === undefined) return; // sent when one is free
  const sent = batch;
  const size = Buffer.byteLength(handles);
  const call =
    `*${8 + sent.length}\r\n$7\r\nEVALSHA\r\n$40\r\n${sha}\r\n${spell(sent.length + 1)}${spell(lane)}${keys}` +
    `${spell(++sequence)}${spell(Date.now() + DEADLINE_MS)}${spell(REMEMBERED_S)}$${size}\r\n${handles}\r\n`;
  const bytes = Buffer.from(call, size === handles.length ? 'latin1' : 'utf8');
  batch = [];
  keys = '';
  handles = '';
  (redis.sendCommand(new SpelledCommand(lane, bytes)) as Promise<unknown>).then((reply) => {
    freeLanes.push(lane);
    const isDone = Array.isArray(reply) && reply.length === 0;
    for (const visit of sent) isDone ? visit.prepare() : visit.refuse();
    schedule();
  });
}

// Requests.

const ANSWER_HEADERS =
  'application/json\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\nx-request-id: ';
let requests = 0;

class Visit {
  readonly #res: HttpResponse;
  readonly #requestId: string;
  #ended = false;
  #sessionId = '';
  #profileId = '';
  #handle = '';
  #body = '';

  constructor(res: HttpResponse, requestId: string) {
    this.#res = res;
    this.#requestId = requestId;
    res.onAborted(() => {
      this.#ended = true;
    });
    res.onData((chunk, isLast) => this.#take(Buffer.from(chunk), isLast));
  }

  #take(bytes: Buffer, isLast: boolean): void {
    const visit: unknown = isLast && isUtf8(bytes) ? JSON.parse(bytes.toString()) : undefined;
    if (!isVisit(visit)) {
      this.refuse();
      return;
    }
    this.#sessionId = normalise(visit.identity.sessionId);
    this.#handle = visit.productHandle;
    checked.push(this);
    schedule();
  }

  enter(): void {
    const digest = hash('sha256', `${SALT}s:${this.#sessionId}`, 'base64url');
    let bits = 0;
    for (let i = 0; i < 5; i++) bits = (bits << 6) | (VALUE_OF[digest.charCodeAt(i)] as number);
    const number = (bits >>> 0) % BUCKETS;
    const bucket = (HIGH_DIGITS[Math.floor(number / 36)] as string) + (LAST_DIGIT[number % 36] as string);
    const profile = `s${digest.slice(5, 21)}`;
    const key = `fl:{${bucket}}:v:${profile}`;
    this.#profileId = `${bucket}.${profile}`;
    keys += `$${key.length}\r\n${key}\r\n`;
    handles += `${this.#handle}\n`;
    batch.push(this);
  }

  prepare(): void {
    this.#body = `{"profileId":"${this.#profileId}","productHandle":${JSON.stringify(this.#handle)}}`;
    answered.push(this);
  }

  answer(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#res.cork(this.#write);
  }

  refuse(): void {
    if (!this.#ended) this.#res.close();
  }

  readonly #write = (): void => {
    this.#res.writeHeader('content-type', ANSWER_HEADERS + this.#requestId);
    this.#res.end(this.#body);
  };
}

function isServed(req: HttpRequest): boolean {
  const type = req.getHeader('content-type');
  return (
    (type === '' || MEDIA_TYPE.test(type)) &&
    Number(req.getHeader('content-length')) <= MAX_BODY &&
    req.getHeader('x-api-key') === '' &&
    req.getHeader('authorization') === '' &&
    req.getHeader('idempotency-key') === '' &&
    !req.getQuery()
  );
}

const { uws } = await loadUws();
const app = uws.App().post('/product/visit', (res, req) => {
  const requestId = req.getHeader('x-request-id') || `floor-${(requests++).toString(36)}`;
  if (isServed(req)) new Visit(res, requestId);
  else res.close();
});
app.listen('127.0.0.1', 0, (socket) => {
  if (socket) process.send?.({ ready: true, port: uws.us_socket_local_port(socket) });
  else process.send?.({ failed: 'the floor can not listen' });
});
