// An event arrives at least once under one id, within limits; failures are retried and end as dead letters.

import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { encodeEvent, encodeMerge, encodeOrderLine } from '../../../src/events/row.js';
import { openHandOver } from '../../../src/extras/receivers/hand-over.js';
import { receiverKeys } from '../../../src/extras/receivers/keys.js';
import { startApp } from '../../harness/app.js';
import { startTestCluster, startTestRedis, type TestRedis } from '../../harness/redis.js';
import { until } from '../../harness/until.js';
import { openDeliveries, startTool, type Tool } from './fixtures.js';

const WHO = { device: 'phone', locale: 'de', email: null, firstName: null, lastName: null };
const redis = await startTestRedis(t);
let opened = 0;
const open = (t: Test, on: TestRedis = redis) => openDeliveries(t, on, `d${opened++}`);
const openOne = async (t: Test) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  return { deliveries, tool, ...(await deliveries.receiver(tool)) };
};
const lineOf = (profileId = '1.s', payload = {}) => {
  const identity = { ...WHO, customerId: null, sessionId: 's' };
  return encodeEvent({ type: 'add', origin: 'item', profileId, identity, payload });
};
const arrived = (tool: Tool, n: number) => until(`${n} deliveries`, () => tool.delivered.length >= n);
const ids = (tool: Tool) => tool.delivered.map(({ id }) => id);
t.test('an event arrives as analysts see it, under its own id, and signed', async (t) => {
  const { deliveries, tool } = await openOne(t);
  const [id] = await deliveries.send({
    profileId: '1.sA',
    identity: { ...WHO, customerId: '7', sessionId: 's-1' },
    payload: { productId: '1001', note: 'ü' },
    at: 1_795_000_000_000,
  });
  deliveries.deliverer();
  await arrived(tool, 1);
  const [{ body, headers }] = tool.delivered as [Tool['delivered'][0]];
  t.same(body, {
    type: 'add',
    timestamp: '2026-11-18T11:06:40.000Z',
    data: {
      eventId: id,
      occurredAt: '2026-11-18T11:06:40.000Z',
      profileId: '1.sA',
      customerId: '7',
      sessionId: 's-1',
      device: 'phone',
      locale: 'de',
      payload: { productId: '1001', note: 'ü' },
    },
  });
  t.equal(headers['webhook-id'], id);
  t.equal(headers['content-type'], 'application/json');
  await deliveries.settled();
  t.match(await deliveries.status(), { pending: 0, bytes: 0, delivered: 1, failures: 0, dead: 0 });
  t.same(tool.faults, []);
});

t.test('a purchase arrives as the row of purchases, and a merge is not delivered', async (t) => {
  const { deliveries, tool } = await openOne(t);
  const line = {
    ...{ name: '1', productId: '1001', variantId: '2002', quantity: 2 },
    ...{ price: '10.00', discount: '1.50', amount: '18.50' },
  };
  const head = {
    ...{ orderId: '9', occurredAt: 1_795_000_000_000, updatedAt: 1_795_000_001_000, isVersioned: true },
    ...{ version: 1, currency: 'EUR', isTest: true },
  };
  const who = { profileId: '1.cA', identity: { ...WHO, customerId: '7', sessionId: 's-1' } };
  const lines = [
    encodeMerge('01a203b7-6e6b-7000-8001-c9d3d870aab0', 5, '1.sA', { into: '1.cA', isNew: false }),
    encodeOrderLine(1_795_000_002_000, who, head, line),
    encodeOrderLine(1_795_000_002_000, who, { ...head, orderId: '10' }, undefined),
  ];
  await deliveries.handOver.handOver(Buffer.from(lines.join('')), []);
  deliveries.deliverer();
  await arrived(tool, 1);
  t.equal(tool.delivered.length, 1);
  const { name, ...stated } = line;
  t.same(tool.delivered[0]?.body, {
    ...{ type: 'purchase', timestamp: '2026-11-18T11:06:42.000Z' },
    data: {
      ...{ occurredAt: '2026-11-18T11:06:40.000Z', updatedAt: '2026-11-18T11:06:41.000Z', orderId: '9' },
      ...{ profileId: '1.cA', customerId: '7', sessionId: 's-1', ...stated, currency: 'EUR', test: true },
    },
  });
});

t.test(
  'a receiver gets events of its types since it was made, and none that ClickHouse refused',
  async (t) => {
    const [deliveries, adds, all] = [await open(t), await startTool(t), await startTool(t)];
    await deliveries.send({});
    const { client, keys } = deliveries.store;
    t.same(
      await client.keys(receiverKeys(keys).deliveries('*').queue),
      [],
      'without receivers nothing is written',
    );
    await deliveries.receiver(adds, { types: ['add'] });
    await deliveries.receiver(all);
    const [add, remove] = await deliveries.send({ type: 'add' }, { type: 'remove' });
    const refused = lineOf();
    const letter = { line: Buffer.from(refused.slice(0, -1)), code: 1, reason: '' };
    await deliveries.handOver.handOver(Buffer.from(refused), [letter]);
    deliveries.deliverer();
    await deliveries.settled();
    await arrived(all, 2);
    t.same(ids(adds), [add]);
    t.same(ids(all), [add, remove]);
  },
);

t.test(
  'at most 16 deliveries are leased at once, each once, for longer than an answer may take',
  async (t) => {
    const { deliveries, tool, id } = await openOne(t);
    const { client, keys } = deliveries.store;
    const counts: number[] = [];
    tool.answer = async (res) => {
      counts.push(
        await client.zcount(receiverKeys(keys).deliveries(id).due, (Date.now() + 20_000) * 16, '+inf'),
      );
      setTimeout(() => res.end(), 20);
    };
    const sent = await deliveries.send(...Array(100).fill({}));
    deliveries.deliverer();
    await arrived(tool, 100);
    await deliveries.settled();
    t.equal(counts[0], 16);
    t.equal(Math.max(...counts), 16);
    t.same(ids(tool).sort(), sent.sort());
  },
);

const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n';
const NOWHERE = 'http://127.0.0.1:1/';
const FAILURES = [
  ['a redirect', (res) => res.writeHead(302, { location: 'http://169.254.169.254/' }).end(), 'answered 302'],
  ['400', (res) => res.writeHead(400).end('no'), 'answered 400'],
  ['a Retry-After of 500', (res) => res.writeHead(500, { 'retry-after': '0' }).end(), 'answered 500'],
  ['Retry-After: soon', (res) => res.writeHead(503, { 'retry-after': 'soon' }).end(), 'answered 503'],
  ['no answer in time', () => {}, /^no answer in 0\.3 s$/],
  ['a broken connection', (res) => res.destroy(), /ECONNRESET|socket hang up/],
  ['101', (res) => res.socket?.write(SWITCHING), /^no answer in/],
  ['half a head', (res) => res.socket?.write('HTTP/1.1 200'), /^no answer in/],
  [NOWHERE, () => {}, 'ECONNREFUSED'],
] satisfies readonly [string, Tool['answer'], string | RegExp][];
t.test('each kind of failure is retried, and becomes a dead letter after the last attempt', async (t) => {
  const deliveries = await open(t);
  const receivers = [];
  for (const [what, answer, why] of FAILURES) {
    const tool = await startTool(t);
    const { id } = await deliveries.receiver(tool, what === NOWHERE ? { url: NOWHERE } : {});
    tool.answer = answer;
    receivers.push({ what, why, tool, id });
  }
  await deliveries.send({});
  deliveries.deliverer({ answerMs: 300 });
  await deliveries.settled();
  for (const { what, why, tool, id } of receivers) {
    t.equal(tool.delivered.length, what === NOWHERE ? 0 : 4, `${what}: the first attempt and three more`);
    t.match(await deliveries.status(id), { failures: 4, dead: 1, bytes: 0, lastError: why }, what);
  }
});

const [S, MIN, H] = [1_000, 60_000, 3_600_000] as const;
const WAITS = [5 * S, 5 * MIN, 30 * MIN, 2 * H, 5 * H, 10 * H, 14 * H, 20 * H, 24 * H];
t.test('a failed delivery is retried at the times of the contract, and delays no other', async (t) => {
  const { deliveries, tool, id } = await openOne(t);
  tool.answer = (res, { body }) => void res.writeHead(body.data.payload.bad ? 500 : 204).end();
  const [bad, good] = await deliveries.send({ payload: { bad: true } }, {});
  const { due } = receiverKeys(deliveries.store.keys).deliveries(id);
  deliveries.deliverer({ retriesMs: undefined });
  await arrived(tool, 2);
  const jitters: number[] = [];
  for (const [i, wait] of WAITS.entries()) {
    const score = await until(`attempt ${i + 1} has failed`, async () => {
      const [, score = 0] = (await deliveries.store.client.zrange(due, '-1', '-1', 'WITHSCORES')).map(Number);
      return score % 16 === i + 1 && score;
    });
    const { lastFailureAt } = await deliveries.status();
    const jitter = (Math.floor(score / 16) - lastFailureAt) / wait - 1;
    t.ok(jitter >= 0 && jitter <= 0.1 + 1 / wait, `${jitter} after attempt ${i + 1}`);
    jitters.push(jitter);
    await deliveries.makeDue(id);
  }
  t.ok(new Set(jitters).size > 1, 'not all the same');
  await deliveries.settled();
  t.match(await deliveries.status(), { delivered: 1, failures: 10, dead: 1, lastError: 'answered 500' });
  t.same(ids(tool).sort(), [good, ...Array(10).fill(bad)].sort());
});

t.test('a Retry-After of 429 or 503 is respected up to 24 h, and counts as no attempt', async (t) => {
  const { deliveries, tool, id } = await openOne(t);
  const inMs = (ms: number) => new Date(Date.now() + ms).toUTCString();
  const cases: [status: number, retryAfter: string, waitS: number][] = [
    [429, '0', 5],
    [503, 'Thu, 01 Jan 1970 00:00:00 GMT', 5],
    [429, '60', 60],
    [503, inMs(3_600_000), 3_600],
    [429, inMs(3e10), 86_400],
    [503, '99999999999', 86_400],
  ];
  tool.answer = (res, { body }) => {
    const { status, retryAfter } = body.data.payload;
    res.writeHead(status, { 'retry-after': retryAfter }).end();
  };
  await deliveries.send(...cases.map(([status, retryAfter]) => ({ payload: { status, retryAfter } })));
  deliveries.deliverer({ retriesMs: undefined });
  await until('all have failed', async () => (await deliveries.status()).failures === cases.length);
  const { lastFailureAt } = await deliveries.status();
  const { due } = receiverKeys(deliveries.store.keys).deliveries(id);
  const entries = await deliveries.store.client.zrange(due, '0', '-1', 'WITHSCORES');
  const scores = entries.filter((_, i) => i % 2 === 1).map(Number);
  for (const [i, [, retryAfter, waitS]] of cases.entries()) {
    const score = scores[i] as number;
    t.equal(score % 16, 0, 'no attempt was made');
    // In the order of `due`. Jitter adds up to a tenth, and the first answer came a little before the last.
    const waited = (score / 16 - lastFailureAt) / 1_000 / waitS;
    t.ok(waited > 0.8 && waited < 1.11, `${retryAfter}: ${waited} of ${waitS} s`);
  }
  tool.answer = (res) => void res.end();
  await deliveries.makeDue(id);
  await deliveries.settled();
  t.match(await deliveries.status(), { delivered: 6, failures: 6, dead: 0 });
});

t.test('a huge or endless answer is a success, and only a little of it is read', async (t) => {
  const { deliveries, tool } = await openOne(t);
  let written = 0;
  tool.answer = (res) => {
    res.writeHead(200);
    const chunk = Buffer.alloc(65_536);
    const write = () => {
      if (res.destroyed || written > 10_000_000) return void res.end();
      written += chunk.length;
      if (res.write(chunk)) setImmediate(write);
      else res.once('drain', write);
    };
    write();
  };
  await deliveries.send({});
  deliveries.deliverer({ answerMs: 1_000 });
  await deliveries.settled();
  tool.answer = (res) => void res.writeHead(200).write('x');
  await deliveries.send({}, {});
  await deliveries.settled();
  t.ok(written < 9_000_000, `${written} bytes were written`);
  t.match(await deliveries.status(), { delivered: 3, failures: 0 });
});

t.test(
  'deliveries to a receiver whose answers never end succeed, and leave no connection open',
  async (t) => {
    const { deliveries, tool } = await openOne(t);
    let [held, most] = [0, 0];
    tool.answer = (res) => {
      most = Math.max(most, ++held);
      res.on('close', () => held--);
      res.writeHead(200).write('x');
    };
    await deliveries.send(...Array(100).fill({}));
    deliveries.deliverer({ answerMs: 200 });
    await deliveries.settled();
    t.match(await deliveries.status(), { delivered: 100, failures: 0 });
    t.ok(most <= 2 * 16, `${most} connections; those that were just cut may be among them`);
    await until('all are cut', () => held === 0);
  },
);

t.test('an answer of 410 disables a receiver, and its deliveries are sent once it is resumed', async (t) => {
  const { deliveries, tool, id } = await openOne(t);
  const { receivers } = deliveries;
  const isEnabled = async () => (await receivers.get(id)).isEnabled;
  const why = async () => (await receivers.get(id)).disabledWhy;
  tool.answer = (res) => void res.writeHead(410).end();
  const deliverer = deliveries.deliverer();
  const [first] = await deliveries.send({});
  await until('it is disabled', async () => !(await isEnabled()));
  const [second] = await deliveries.send({});
  await sleep(600);
  t.same(ids(tool), [first]);
  t.match(await deliveries.status(), { pending: 2, lastError: 'answered 410' });
  t.equal(await why(), 'it answered 410');
  await receivers.change(id, { isEnabled: false });
  t.equal(await why(), 'it answered 410', 'a pause does not hide it');
  tool.answer = (res) => void res.end();
  await receivers.change(id, { isEnabled: true });
  t.equal(await why(), undefined);
  await deliveries.settled();
  t.same(ids(tool).slice(1).sort(), [first, second].sort());
  await deliverer.close();

  tool.answer = (res) => void res.writeHead(410).end();
  await deliveries.send({});
  deliveries.deliverer({ retriesMs: [] });
  await until('it is disabled', async () => !(await isEnabled()));
  t.match(await deliveries.status(), { pending: 0, dead: 1 }, 'at the last attempt it is a dead letter, too');
});

t.test(
  'five days without success disable a receiver, and a success or a resumption restarts them',
  async (t) => {
    const { deliveries, tool, id } = await openOne(t);
    const isEnabled = async () => (await deliveries.receivers.get(id)).isEnabled;
    const { state } = receiverKeys(deliveries.store.keys).deliveries(id);
    const DAY = 24 * 60 * 60_000;
    const attemptAfter = async (failedForMs: number, status: number) => {
      await deliveries.store.client.hset(state, 'failingSince', Date.now() - failedForMs);
      tool.answer = (res) => void res.writeHead(status).end();
      await deliveries.send({});
      await deliveries.settled();
      await sleep(300);
      return isEnabled();
    };
    deliveries.deliverer({ retriesMs: [] });
    t.ok(await attemptAfter(6 * DAY, 200), 'it has succeeded');
    t.equal(await deliveries.store.client.hget(state, 'failingSince'), null);
    t.ok(await attemptAfter(4.9 * DAY, 500), 'four days');
    await attemptAfter(5.1 * DAY, 500);
    await until('it is disabled', async () => !(await isEnabled()));
    t.equal((await deliveries.receivers.get(id)).disabledWhy, 'no delivery succeeded for five days');
    await deliveries.receivers.change(id, { isEnabled: true });
    tool.delivered.length = 0;
    await deliveries.send({});
    await arrived(tool, 1);
    await deliveries.settled();
    await sleep(300);
    t.ok(await isEnabled(), 'its five days begin anew');
  },
);

t.test('the oldest deliveries become dead letters if a queue exceeds its bytes', async (t) => {
  const deliveries = await open(t);
  const { id } = await deliveries.receiver(await startTool(t));
  const payload = { text: 'x'.repeat(900) };
  const sent: string[] = [];
  const { store } = deliveries;
  const small = openHandOver(store.client, store.keys, 10_000, pino({ level: 'silent' }));
  for (let i = 0; i < 30; i++) {
    const line = lineOf(`1.s${i}`, payload);
    sent.push((JSON.parse(line) as { event_id: string }).event_id);
    await small.handOver(Buffer.from(line), []);
  }
  const { queue, due } = receiverKeys(store.keys).deliveries(id);
  const entries = await store.client.xrange(queue, '-', '+');
  const waiting = entries.map(([, [, line = '']]) => JSON.parse(line).event_id as string);
  t.ok(waiting.length >= 5 && waiting.length <= 10);
  t.same(waiting, sent.slice(-waiting.length));
  t.equal(await store.client.zcard(due), waiting.length);
  const { bytes, dead } = await deliveries.status();
  t.ok(bytes > 0 && bytes <= 10_000);
  t.equal(dead, 30 - waiting.length);
});

t.test('names and addresses go only to receivers made for them, with the present profile', async (t) => {
  const app = await startApp(t, redis);
  const deliveries = await openDeliveries(t, redis, app.prefix);
  const [plain, personal] = [await startTool(t), await startTool(t)];
  await deliveries.receiver(plain);
  await deliveries.receiver(personal, { includePersonal: true });
  const { profileId: guest } = await app.shop.event({ sessionId: 's-1' });
  await app.shop.event({ customerId: '7', email: 'ada@shop.example', firstName: 'Ada', lastName: 'Byron' });
  const { profileId } = await app.shop.login({ customerId: '7', sessionId: 's-1' });
  t.not(guest, profileId);
  await deliveries.send({ profileId: guest, identity: { ...WHO, customerId: null, sessionId: 's-1' } });
  deliveries.deliverer();
  await arrived(plain, 1);
  await arrived(personal, 1);
  t.equal(plain.delivered[0]?.body.data.profileId, profileId);
  t.notMatch(JSON.stringify(plain.delivered), /ada|Ada|Byron|email/);
  const names = { email: 'ada@shop.example', firstName: 'Ada', lastName: 'Byron' };
  t.match(personal.delivered[0]?.body.data, { profileId, ...names });
});

t.test('a hand-over is repeated while one queue refuses it, and other queues get it once', async (t) => {
  const deliveries = await open(t);
  const { store, handOver } = deliveries;
  const [one, other] = [await startTool(t), await startTool(t)];
  const [taking, refusing] = [await deliveries.receiver(one), await deliveries.receiver(other)];
  const { queue } = receiverKeys(store.keys).deliveries(refusing.id);
  await store.client.set(queue, 'of another type');
  const batch = Buffer.from(lineOf());
  for (let i = 0; i < 3; i++) await t.rejects(handOver.handOver(batch, []));
  await store.client.del(queue);
  await handOver.handOver(batch, []);
  for (const { id } of [taking, refusing]) t.equal((await deliveries.status(id)).pending, 1);
});

t.test('a removed receiver has no deliveries, even of events handed over at that moment', async (t) => {
  const { deliveries, id } = await openOne(t);
  const { store, receivers } = deliveries;
  await deliveries.send({});
  const removing = new Proxy(store.client, {
    get(client, name) {
      const own = Reflect.get(client, name);
      if (name !== 'hgetall') return typeof own === 'function' ? own.bind(client) : own;
      return async (key: string) => {
        const read = await client.hgetall(key);
        await receivers.remove(id);
        return read;
      };
    },
  });
  const late = openHandOver(removing, store.keys, 10_000, pino({ level: 'silent' }));
  await late.handOver(Buffer.from(lineOf()), []);
  t.equal(await store.client.exists(...Object.values(receiverKeys(store.keys).deliveries(id))), 0);
  t.equal(await store.client.exists(receiverKeys(store.keys).receivers), 0);
});

t.test(
  'a stopping deliverer waits for pending answers, and a receiver removed meanwhile leaves nothing',
  async (t) => {
    const { deliveries, tool, id } = await openOne(t);
    const held: ServerResponse[] = [];
    tool.answer = (res) => void held.push(res);
    const sent = await deliveries.send(...Array(20).fill({}));
    const deliverer = deliveries.deliverer();
    await until('as many as may be are in flight', () => held.length === 16);
    let isClosed = false;
    const closed = deliverer.close().then(() => {
      isClosed = true;
    });
    const other = deliveries.deliverer();
    await until('the rest has come', () => held.length === 20);
    await sleep(600);
    t.notOk(isClosed);
    for (const res of held.splice(0)) res.end();
    await closed;
    await deliveries.settled();
    t.same(ids(tool).sort(), sent.sort());

    await deliveries.send({});
    await until('it is in flight', () => held.length === 1);
    await deliveries.receivers.remove(id);
    held[0]?.end();
    await other.close();
    t.equal(
      await deliveries.store.client.exists(
        ...Object.values(receiverKeys(deliveries.store.keys).deliveries(id)),
      ),
      0,
    );
  },
);

t.test('hanging and failing receivers delay no others, and get everything once they answer', async (t) => {
  const deliveries = await open(t);
  const tools: Tool[] = [];
  const held: ServerResponse[] = [];
  for (let i = 0; i < 20; i++) {
    const tool = await startTool(t);
    await deliveries.receiver(tool);
    const fail: Tool['answer'] = (res) => void res.writeHead(503, { 'retry-after': '1' }).end();
    if (i % 5 === 0) tool.answer = i % 2 === 0 ? (res) => void held.push(res) : fail;
    tools.push(tool);
  }
  deliveries.deliverer();
  const sent = await deliveries.send(...Array(30).fill({}));
  const failing = tools.filter((_, i) => i % 5 === 0);
  const others = tools.filter((_, i) => i % 5 !== 0);
  for (const tool of others) {
    await arrived(tool, 30);
    t.same(ids(tool).sort(), [...sent].sort());
  }
  for (const tool of failing) tool.answer = (res) => void res.end();
  for (const res of held) res.end();
  for (const tool of failing) await until('all have arrived', () => new Set(ids(tool)).size === 30);
  for (const { faults } of tools) t.same(faults, []);
});

t.test('deliveries that another program queues or removes are not sent, and delay nothing', async (t) => {
  const { deliveries, tool, id } = await openOne(t);
  const { queue, due } = receiverKeys(deliveries.store.keys).deliveries(id);
  const { client } = deliveries.store;
  await deliveries.send(...Array(3).fill({}));
  const [[removed] = ['']] = await client.xrange(queue, '-', '+');
  await client.xdel(queue, removed);
  const event = { event_id: '1', type: 'add', profile_id: '1.s', occurred_at: 1 };
  const foreign = [
    ...[{ event_id: 1 }, { type: undefined }, { profile_id: undefined }, { occurred_at: undefined }],
    ...[{ occurred_at: 1e18 }, { payload: '{' }],
  ].map((wrong) => JSON.stringify({ ...event, ...wrong }));
  await deliveries.receivers.queue(id).add(['no JSON', ...foreign]);
  const [sent = ''] = await deliveries.send({});
  deliveries.deliverer();
  await deliveries.settled();
  t.equal(tool.delivered.length, 3);
  t.ok(ids(tool).includes(sent));
  t.match(await deliveries.status(), { dead: 7, delivered: 3 });
  t.equal(await client.zcard(due), 0);
});

t.test("two deliverers on a cluster send nothing twice, and one takes over the other's rest", async (t) => {
  const deliveries = await open(t, await startTestCluster(t));
  const tools = [await startTool(t), await startTool(t), await startTool(t)];
  const held: ServerResponse[] = [];
  for (const tool of tools) {
    await deliveries.receiver(tool);
    tool.answer = (res) => void held.push(res);
  }
  const one = deliveries.deliverer();
  deliveries.deliverer();
  const sent = await deliveries.send(...Array(100).fill({}));
  await until('both have what they may', () => held.length === 2 * 3 * 16);
  for (const tool of tools) tool.answer = (res) => void setTimeout(() => res.end(), 5);
  for (const res of held) res.end();
  await one.close();
  sent.push(...(await deliveries.send(...Array(100).fill({}))));
  await deliveries.settled();
  for (const tool of tools) t.same(ids(tool).sort(), [...sent].sort());
});

t.test(
  "a queue's status has the age of its oldest due delivery, and the counts of the last hour",
  async (t) => {
    const deliveries = await open(t);
    const { id } = await deliveries.receiver(await startTool(t));
    const queue = deliveries.receivers.queue(id);
    const late = async () => (await queue.status()).lateMs;
    t.equal(await late(), 0, 'nothing waits');
    await queue.add(['a', 'b']);
    await sleep(50);
    t.ok((await late()) >= 50, 'what nobody has taken');
    const [a, b] = (await queue.take(9, 600_000)).map((taken) => taken.id) as [string, string];
    t.equal(await late(), 0, 'all of it is in flight');
    await queue.add(['c']);
    const [c] = (await queue.take(9, 0)).map((taken) => taken.id) as [string];
    await sleep(50);
    t.ok((await late()) >= 50, 'of which the lease has ended');
    await queue.resolve(c, { outcome: 'retry', attempts: 1, retryInMs: 60_000, why: 'x' });
    t.equal(await late(), 0, 'what has failed is not due yet');

    await queue.resolve(a, { outcome: 'done' });
    await queue.resolve(b, { outcome: 'drop' });
    await queue.resolve(c, { outcome: 'dead', why: 'x' });
    const counts = { inHour: { delivered: 1, failures: 2 }, delivered: 1, failures: 2, dead: 1 };
    t.match(await queue.status(), counts);
    // Moves the counts back by this many steps of five minutes.
    const { client, keys } = deliveries.store;
    const { state } = receiverKeys(keys).deliveries(id);
    const slots = Array.from({ length: 13 }, (_, i) => `recent${i}`);
    const [counted = ''] = (await client.hmget(state, ...slots)).filter((one) => one !== null);
    const step = Number(counted?.split(' ')[0]);
    const set = async (ago: number) => {
      await client.hdel(state, ...slots);
      await client.hset(state, `recent${(step - ago) % 13}`, `${step - ago} 2 2`);
    };
    await set(11);
    t.match(await queue.status(), { inHour: { delivered: 2, failures: 2 } });
    await set(13);
    t.match(await queue.status(), { inHour: { delivered: 0, failures: 0 } });
    await queue.resolve(a, { outcome: 'done' });
    // The old counts of this slot are gone.
    t.match(await queue.status(), { inHour: { delivered: 1, failures: 0 }, delivered: 2 });
  },
);

t.test('the log of deliveries has no secret, no signature and no visitor', async (t) => {
  const { deliveries, tool, id, secret } = await openOne(t);
  tool.answer = (res) => void res.writeHead(410).end('no');
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line) => lines.push(line) });
  await deliveries.send({ profileId: '1.sLogged' });
  deliveries.deliverer({ log });
  await until('it is disabled', () => lines.some((line) => line.includes('a receiver is disabled')));
  t.match(lines.join(''), id);
  t.notOk(lines.join('').includes(secret.slice(10)));
  t.notMatch(lines.join(''), /v1,|sLogged|s-1/);
});

t.test('many answers of 410 disable a receiver once, and not again after it is resumed', async (t) => {
  const { deliveries, tool, id } = await openOne(t);
  const { receivers } = deliveries;
  const answers: (() => void)[] = [];
  tool.answer = (res) => void answers.push(() => res.writeHead(410).end());
  const disabled: string[] = [];
  const log = pino({}, { write: (line) => void (line.includes('is disabled') && disabled.push(line)) });
  await deliveries.send(...Array.from({ length: 8 }, () => ({})));
  deliveries.deliverer({ log });
  await until('all are under way', () => answers.length === 8);
  for (const answer of answers.slice(0, 7)) answer();
  await until('seven are answered', async () => (await deliveries.status()).failures === 7);
  await receivers.change(id, { isEnabled: true });
  tool.answer = (res) => void res.end();
  answers[7]?.();
  await until('it is disabled', () => disabled.length > 0);
  await receivers.change(id, { isEnabled: true });
  await deliveries.settled();
  t.equal(disabled.length, 1);
  t.ok((await receivers.get(id)).isEnabled);
});

t.test('an outage of Redis is logged once by a deliverer, and its end once', async (t) => {
  const { deliveries } = await openOne(t);
  const { receivers } = deliveries;
  const list = receivers.list.bind(receivers);
  let asked = 0;
  const away = Promise.reject(new Error('away'));
  away.catch(() => {});
  receivers.list = () => {
    asked++;
    return away;
  };
  const messages: string[] = [];
  const log = pino({}, { write: (line) => messages.push(JSON.parse(line).msg) });
  deliveries.deliverer({ log });
  await until('it was asked again', () => asked > 3);
  receivers.list = list;
  await deliveries.send({});
  await deliveries.settled();
  t.match(messages, [/^receivers could not be read from Redis;/, 'receivers are read from Redis again']);
  t.equal(messages.length, 2);
});
