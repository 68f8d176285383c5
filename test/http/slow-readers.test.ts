// Answers that their readers do not take: all bytes that wait have one limit, the slowest readers are cut first, and a connection
// on which nothing is read gets no further answers.

import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { startApp, TRUSTED } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { Wire } from '../harness/wire.js';

const MiB = 1024 * 1024;
const LIMIT = 64 * MiB;
const WHO = { sessionId: 'with-a-long-list' };
/** Items, each of about 16 KB: more bytes than the kernel takes for a reader that does not read. */
const ITEMS = 400;

const redis = await startTestRedis(t);

/** A connection that asks for the whole list and reads none of it. */
async function ask(t: Test, port: number): Promise<Wire> {
  const wire = await Wire.open(t, port);
  wire.socket.pause();
  const body = JSON.stringify({ identity: WHO });
  wire.sendHead('POST', '/item/list', { ...TRUSTED, 'content-length': `${body.length}` });
  wire.send(body);
  return wire;
}

t.test('all bytes that wait for slow readers have one limit', async (t) => {
  let now = 0;
  const env = { MAX_ITEMS_BYTES: String(16 * MiB) };
  const app = await startApp(t, redis, { env, timing: { now: () => now } });
  const properties = { text: 'x'.repeat(16_000) };
  for (let i = 0; i < ITEMS; i += 50) {
    const ids = Array.from({ length: 50 }, (_, n) => String(1 + i + n));
    await Promise.all(ids.map((productId) => app.shop.add(WHO, { productId, properties })));
  }
  const waiting = async () => Number(await app.figure('http_pending_bytes'));
  const list = () => app.post('/item/list', { identity: WHO }, TRUSTED);

  const wires: Wire[] = [];
  for (let before = -1; (await waiting()) > before; ) {
    before = await waiting();
    const readers = wires.push(await ask(t, app.port));
    await until('it is answered or refused', async () => {
      const refused = Number((await app.figure('http_refused_total{code="overloaded",why="readers"}')) ?? 0);
      return (await waiting()) > before || refused > 0 || readers > 20;
    });
  }
  const full = await waiting();
  t.ok(full <= LIMIT && full > LIMIT / 2, `${full} bytes wait`);
  const refused = await list();
  t.match(refused, { status: 503, json: { code: 'overloaded', error: /slow readers/ } });
  t.ok(refused.headers['retry-after']);
  t.match(await app.post('/product/visit', { identity: WHO, productHandle: 'x' }), { status: 200 });

  now = 2_000;
  const answer = await list();
  t.match(answer, { status: 200 }, 'a reader that takes nothing makes room');
  t.equal(answer.json.items.length, ITEMS);
  t.equal(await app.figure('http_readers_cut_total'), 1);
  t.ok((await waiting()) < full);
  for (const wire of wires) wire.socket.destroy();
  await until('nothing waits any more', async () => (await waiting()) === 0);
});

t.test('who sends requests and reads no answers is cut, also where no rate limit holds', async (t) => {
  const app = await startApp(t, redis);
  for (const [path, status] of [
    ['/nowhere', 404],
    ['/healthz', 200],
    ['/beacon.js', 200],
  ] as const) {
    t.equal((await app.get(path)).status, status);
    const wire = await Wire.open(t, app.port);
    wire.socket.pause();
    const requests = `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(400);
    let isCut = false;
    wire.socket.once('close', () => {
      isCut = true;
    });
    for (let sent = 0; !isCut && sent < 8 * MiB; sent += requests.length) {
      await new Promise((resolve) => wire.socket.write(requests, resolve));
      await turn();
    }
    t.ok(isCut, path);
  }
});
