// The floor: the least code on uWebSockets.js and ioredis that does what the contract asks of a warm, anonymous visit:
// headers, media type, bounds, UTF-8, JSON schema, normalised ids, profile id, request id, and one numbered batch with a
// deadline per tick of the event loop, whose script does one HINCRBY per visit. One object per request is also the batch's
// operation. Ids are checked and profile ids made by the service's own functions. It leaves out what a warm visit does not
// need (credentials, bodies in pieces, retries, merges, overload: such a request loses its connection).

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { isUtf8 } from 'node:buffer';
import { Redis } from 'ioredis';
import { loadUws } from '../../src/http/uws.js';
import { normaliseId } from '../../src/identity-rules.js';
import { createProfileIds } from '../../src/profiles/profile-id.js';
import { bucketOf } from '../../src/redis/keys.js';
import { SpelledCommand } from '../../src/redis/script-call.js';
import { SCRIPT, spell } from './floor-redis.js';
import { isVisit } from './floor-schema.js';

const MAX_BODY = 65_536;
const MEDIA_TYPE = /^(application\/json|text\/plain)[ \t]*(;|$)/i;

const profileIds = createProfileIds('a salt of fixed length!!', 16_384);

// Batches. One batch at a time is sent on a lane; Redis keeps the lane's last number and answer.

const LANES = 4;
const DEADLINE_MS = 400;
const REMEMBERED_S = 60;

const redis = new Redis(process.env.REDIS_URL ?? '');
const sha = (await redis.script('LOAD', SCRIPT)) as string;

const freeChannels = Array.from({ length: LANES }, (_, lane) => `fl:{all}:lane:${process.pid}.${lane}`);
let sequence = 0;
let isScheduled = false;
let checked: Visit[] = [];
let answered: Visit[] = [];
let batch: Visit[] = [];
let keys = '';
let handles = '';

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(readTwice);
}

/** Sockets are read twice for each batch. */
function readTwice(): void {
  setImmediate(endTick);
  answer();
}

function endTick(): void {
  isScheduled = false;
  for (const visit of checked) visit.enter();
  checked = [];
  if (batch.length > 0) sendBatch();
  answer(); // for replies that came with the second read
}

function answer(): void {
  const visits = answered;
  answered = [];
  for (const visit of visits) visit.answer();
}

function sendBatch(): void {
  const lane = freeChannels.pop();
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
  (redis.sendCommand(new SpelledCommand('evalsha', lane, bytes)) as Promise<unknown>).then((reply) => {
    freeChannels.push(lane);
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
    this.#sessionId = normaliseId(visit.identity.sessionId);
    this.#handle = visit.productHandle;
    checked.push(this);
    schedule();
  }

  enter(): void {
    const profileId = profileIds.of(`s:${this.#sessionId}`);
    const bucket = bucketOf(profileId);
    const key = `fl:{${bucket}}:v:${profileId.slice(bucket.length + 1)}`;
    this.#profileId = profileId;
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
