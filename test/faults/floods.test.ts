// More than the service can do, and clients that take their time: what is too much waits a bounded time or gets 503,
// memory stays where it was, and good requests beside bad clients are answered. FAULTS=full: as many and as long as
// promised. Times are told, not judged: this machine may be busy.

import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { freePort } from '../../src/embedded/redis.js';
import { until } from '../cli/wishmeter.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { type FloodResult, flood, floodSession, open } from './flood.js';
import { FULL, KEY, programPart } from './stage.js';

const PEAK_CONNECTIONS = 64;
const MANY_CONNECTIONS = FULL ? 4_000 : 1_500;
const FLOOD_S = FULL ? 60 : 5;
const SLOW_CLIENTS = FULL ? 5_000 : 1_200;
const SLOW_S = FULL ? 60 : 13;
/** Longer than anything may take; a guard against what hangs, not a promise of speed. */
const HANG_MS = 15_000;
/** What a process may grow by: buffers of thousands of connections, and the engine's own leisure. */
const GROWTH_MB = 150;

/** A `serve` in a process of its own. */
async function startServe(t: Test) {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const port = await freePort();
  const part = programPart('serve', 'serve', {
    REDIS_URL: redis.url,
    API_KEYS: KEY,
    HOST: '127.0.0.1',
    PORT: String(port),
  });
  await part.start();
  t.teardown(() => part.stop());
  const get = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  return {
    redis,
    port,
    get,
    megabytes: () => {
      const status = readFileSync(`/proc/${part.pid}/status`, 'utf8');
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
    },
    isAlive: () => part.pid !== undefined,
    async openRequests() {
      return Number(/^wishmeter_http_open_requests (\d+)$/m.exec(await get('/metrics'))?.[1]);
    },
  };
}

function expectBounded(t: Test, { answers, withoutRetryAfter, longestMs }: FloodResult, what: string): void {
  t.same(
    Object.keys(answers).filter((status) => status !== '200' && status !== '503'),
    [],
    `${what}: 200 or 503`,
  );
  t.equal(withoutRetryAfter, 0, `${what}: 503 says when to come again`);
  t.ok(longestMs < HANG_MS, `${what}: nobody waits for ever`);
}

t.test(
  'far more than the peak: the excess waits or is refused, memory is flat, what was done counts',
  { timeout: 600_000 },
  async (t) => {
    const serve = await startServe(t);
    const warmUp = await flood(serve.port, PEAK_CONNECTIONS, 1);
    const peak = await flood(serve.port, PEAK_CONNECTIONS, FULL ? 10 : 3);
    const before = serve.megabytes();
    const over = await flood(serve.port, MANY_CONNECTIONS, FLOOD_S);
    const grown = serve.megabytes() - before;
    expectBounded(t, over, 'overload');
    t.ok(grown < GROWTH_MB, `${before.toFixed(0)} MB, grown by ${grown.toFixed(0)} MB`);
    t.comment(`peak with ${PEAK_CONNECTIONS} connections: ${JSON.stringify(peak)}`);
    t.comment(
      `with ${MANY_CONNECTIONS}: ${JSON.stringify(over)}, ${((100 * over.goodput) / peak.goodput).toFixed(0)} % of the peak`,
    );

    // Redis itself can do but a fraction now: it takes writes for a tenth of the time.
    const client = connectTo(serve.redis.url);
    t.teardown(() => client.disconnect());
    let isSlow = true;
    const pausing = (async () => {
      while (isSlow) {
        await client.call('CLIENT', 'PAUSE', '900', 'WRITE');
        await sleep(1_000);
      }
    })();
    const starved = await flood(serve.port, MANY_CONNECTIONS, FLOOD_S);
    isSlow = false;
    await pausing;
    await client.call('CLIENT', 'UNPAUSE');
    expectBounded(t, starved, 'a slow Redis');
    t.ok((starved.answers['503'] ?? 0) > 0, 'there was an excess to refuse');
    t.ok((starved.answers['200'] ?? 0) > 0, 'and the rest was done');
    t.comment(
      `with a Redis that pauses: ${JSON.stringify(starved)}, grown by ${(serve.megabytes() - before).toFixed(0)} MB`,
    );
    t.ok(serve.megabytes() - before < GROWTH_MB, 'memory is flat still');

    const after = await flood(serve.port, PEAK_CONNECTIONS, 1);
    t.same(Object.keys(after.answers), ['200'], 'all is well when it is over');
    t.equal(await serve.openRequests(), 1, 'nothing is left open');
    let counted = 0;
    for (let i = 0; i < 50; i++) {
      const query = new URLSearchParams({ sessionId: floodSession(i), productHandle: 'x' });
      counted += JSON.parse(await serve.get(`/product/visit?${query}`)).count;
    }
    const all = [warmUp, peak, over, starved, after];
    const acknowledged = all.reduce((sum, { answers }) => sum + (answers['200'] ?? 0), 0);
    const sent = all.reduce((sum, one) => sum + one.sent, 0);
    t.ok(
      acknowledged <= counted && counted <= sent,
      `acknowledged ${acknowledged}, counted ${counted}, sent ${sent}`,
    );
  },
);

t.test(
  'clients that take their time, never end or leave: good requests beside them are answered',
  { timeout: 600_000 },
  async (t) => {
    const serve = await startServe(t);
    const quiet = await goodRequests(serve.port, 2);
    const before = serve.megabytes();

    const slow: Socket[] = [];
    for (let i = 0; i < SLOW_CLIENTS; i += 100) {
      slow.push(
        ...(await Promise.all(
          Array.from({ length: Math.min(100, SLOW_CLIENTS - i) }, () => open(serve.port)),
        )),
      );
    }
    const texts = slow.map((_, i) => slowly(i));
    let ended = 0;
    const statuses: Record<string, number> = {};
    for (const socket of slow) {
      socket.on('close', () => ended++);
      socket.on('data', (data: unknown) => {
        const status = String(data).slice(9, 12);
        statuses[status] = (statuses[status] ?? 0) + 1;
      });
    }
    let n = 0;
    const dripping = setInterval(() => {
      for (const [i, socket] of slow.entries())
        if (socket.writable) socket.write((texts[i] as (n: number) => string)(n));
      n++;
    }, 1_000);
    let isOver = false;
    const leaving = leave(serve.port, () => isOver);
    const beside = await goodRequests(serve.port, SLOW_S);
    isOver = true;
    clearInterval(dripping);
    const left = await leaving;
    const grown = serve.megabytes() - before;
    for (const socket of slow) socket.destroy();

    t.comment(`quiet: ${told(quiet)}`);
    t.comment(
      `beside ${SLOW_CLIENTS} slow clients (${ended} ended by the server, ${JSON.stringify(statuses)}) and ${left} that left: ${told(beside)}`,
    );
    t.same(quiet.wrong, []);
    t.same(beside.wrong, [], 'every good request was answered with 200');
    t.ok(beside.latencies.length > 50, `${beside.latencies.length} good requests`);
    t.ok(Math.max(...beside.latencies) < HANG_MS);
    t.ok(left > 20, `${left} clients left in the middle`);
    t.ok((statuses['408'] ?? 0) > SLOW_CLIENTS / 4, 'bodies that do not end are told so after 10 s');
    t.ok(grown < GROWTH_MB, `${before.toFixed(0)} MB, grown by ${grown.toFixed(0)} MB`);
    await until('nothing is open any more', async () => (await serve.openRequests()) === 1);
    t.ok(serve.isAlive());
  },
);

/** What the `i`th slow client sends in its `n`th second. */
function slowly(i: number): (n: number) => string {
  const head = 'POST /product/visit HTTP/1.1\r\nhost: slow\r\n';
  switch (i % 4) {
    case 0: // a head, byte by byte
      return (n) => head[n % head.length] as string;
    case 1: // a body that was announced, byte by byte
      return (n) => (n === 0 ? `${head}content-length: 60000\r\n\r\n` : ' ');
    case 2: // a body of chunks that never ends
      return (n) => (n === 0 ? `${head}transfer-encoding: chunked\r\n\r\n` : '1\r\n \r\n');
    default: // nothing after the head
      return (n) => (n === 0 ? `${head}content-length: 10\r\n\r\n` : '');
  }
}

/** Clients that go away in the middle of their body, or before and in the middle of their answer. */
async function leave(port: number, isOver: () => boolean): Promise<number> {
  const body = JSON.stringify({ identity: { sessionId: 'leaver' }, productHandle: 'x' });
  const head = `POST /product/visit HTTP/1.1\r\nhost: leaver\r\ncontent-length: ${body.length}\r\n\r\n`;
  let left = 0;
  while (!isOver()) {
    const socket = await open(port);
    switch (left++ % 4) {
      case 0:
        socket.write(head + body.slice(0, 9), () => socket.resetAndDestroy());
        break;
      case 1:
        socket.write(head + body, () => socket.resetAndDestroy());
        break;
      case 2:
        socket.write(head + body, () => socket.destroy());
        break;
      default: // the document is long: it does not read to its end
        socket.once('data', () => socket.resetAndDestroy());
        socket.write('GET /openapi.json HTTP/1.1\r\nhost: leaver\r\n\r\n');
    }
    await sleep(10);
  }
  return left;
}

interface Good {
  readonly latencies: number[];
  /** Whatever is not 200. */
  readonly wrong: string[];
}

/** Four clients that read counts and count visits, and rest a little in between. */
async function goodRequests(port: number, seconds: number): Promise<Good> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const good: Good = { latencies: [], wrong: [] };
  const end = performance.now() + seconds * 1_000;
  const body = JSON.stringify({ identity: { sessionId: 'good' }, productHandle: 'x' });
  const one = () =>
    new Promise<void>((done) => {
      const at = performance.now();
      const settle = (what: string) => {
        good.latencies.push(performance.now() - at);
        if (what !== '200') good.wrong.push(what);
        done();
      };
      const headers = { 'content-length': body.length };
      const req = request({
        host: '127.0.0.1',
        port,
        agent,
        method: 'POST',
        path: '/product/visit?count=true',
        headers,
      });
      req.on('response', (res) => res.resume().on('end', () => settle(String(res.statusCode))));
      req.on('error', (error) => settle(error.message));
      req.end(body);
    });
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (; performance.now() < end; await sleep(20)) await one();
    }),
  );
  agent.destroy();
  return good;
}

function told({ latencies }: Good): string {
  const sorted = [...latencies].sort((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(1);
  return `${sorted.length} good requests, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`;
}
