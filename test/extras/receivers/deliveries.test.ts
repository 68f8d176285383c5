// What is handed over arrives: at least once under one id, never more at once than may be;
// what fails comes again, and ends as a dead letter; and what becomes of it where a receiver is away, gone, slow or too late.

import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { encodeEvent, encodeMerge, encodeOrderLine } from '../../../src/events/row.js';
import { openHandOver } from '../../../src/extras/receivers/hand-over.js';
import { streamsOf } from '../../../src/redis/node-markers.js';
import { startApp } from '../../harness/app.js';
import { startTestCluster, startTestRedis, type TestRedis } from '../../harness/redis.js';
import { until } from '../../harness/until.js';
import { type Deliveries, openDeliveries, startTool, type Tool } from './fixtures.js';

const WHO = { device: 'phone', locale: 'de', email: null, firstName: null, lastName: null };
const redis = await startTestRedis(t);
let opened = 0;
const open = (t: Test, on: TestRedis = redis) => openDeliveries(t, on, `d${opened++}`);
const arrived = (tool: Tool, n: number) => until(`${n} deliveries`, () => tool.delivered.length >= n);
const ids = (tool: Tool) => tool.delivered.map(({ id }) => id);
const statusOf = async ({ receivers }: Deliveries) => {
  const [one] = await receivers.list();
  return receivers.statusOf(one?.id ?? '');
};
const settled = (deliveries: Deliveries) =>
  until('nothing waits', async () => (await statusOf(deliveries)).pending === 0);

t.test('an event arrives as analysts see it, under its own id, signed', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  await deliveries.receiver(tool);
  const [id] = await deliveries.send(0, {
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
  await settled(deliveries);
  t.match(await statusOf(deliveries), { pending: 0, bytes: 0, delivered: 1, failures: 0, dead: 0 });
  t.same(tool.faults, []);
});

t.test('a purchase arrives as the row of purchases; a merge is no delivery', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  await deliveries.receiver(tool);
  const line = {
    ...{ name: '1', productId: '1001', variantId: '2002', quantity: 2 },
    ...{ price: '10.00', discount: '1.50', amount: '18.50' },
  };
  const head = {
    ...{ orderId: '9', occurredAt: 1_795_000_000_000, updatedAt: 1_795_000_001_000, isVersioned: true },
    ...{ version: 1, currency: 'EUR', isTest: true },
  };
  const identity = { ...WHO, customerId: '7', sessionId: 's-1' };
  const lines = [
    encodeMerge('01a203b7-6e6b-7000-8001-c9d3d870aab0', 5, '1.a', '1.b'),
    encodeOrderLine(1_795_000_002_000, { profileId: '1.cA', identity }, head, line),
    encodeOrderLine(
      1_795_000_002_000,
      { profileId: '1.cA', identity },
      { ...head, orderId: '10' },
      undefined,
    ),
  ];
  await deliveries.handOver.handOver(0, Buffer.from(lines.join('')), []);
  deliveries.deliverer();
  await arrived(tool, 1);
  t.same(
    tool.delivered.map(({ body }) => body),
    [
      {
        type: 'purchase',
        timestamp: '2026-11-18T11:06:42.000Z',
        data: {
          occurredAt: '2026-11-18T11:06:40.000Z',
          updatedAt: '2026-11-18T11:06:41.000Z',
          orderId: '9',
          profileId: '1.cA',
          customerId: '7',
          sessionId: 's-1',
          productId: '1001',
          variantId: '2002',
          quantity: 2,
          price: '10.00',
          discount: '1.50',
          amount: '18.50',
          currency: 'EUR',
          test: true,
        },
      },
    ],
  );
});

t.test(
  'a receiver is sent the types that it takes, from when it was made, and nothing that ClickHouse refused',
  async (t) => {
    const [deliveries, adds, all] = [await open(t), await startTool(t), await startTool(t)];
    await deliveries.send(0, {});
    const { client, keys } = deliveries.store;
    t.same(await client.keys(keys.deliveries(0, '*').queue), [], 'without receivers nothing is written');
    await deliveries.receiver(adds, { types: ['add'] });
    await deliveries.receiver(all);
    const [add, remove] = await deliveries.send(0, { type: 'add' }, { type: 'remove' });
    const identity = { ...WHO, customerId: null, sessionId: 's' };
    const refused = encodeEvent({ type: 'add', origin: 'item', profileId: '1.s', identity, payload: {} });
    const letter = { line: Buffer.from(refused.slice(0, -1)), code: 1, reason: '' };
    await deliveries.handOver.handOver(0, Buffer.from(refused), [letter]);
    deliveries.deliverer();
    await settled(deliveries);
    await arrived(all, 2);
    t.same(ids(adds), [add]);
    t.same(ids(all), [add, remove]);
  },
);

t.test('no more than 16 are sent at once, each once, and no more are taken', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  const { id } = await deliveries.receiver(tool);
  const { client, keys } = deliveries.store;
  const counts: number[] = [];
  tool.answer = async (res) => {
    counts.push(await client.zcard(keys.deliveries(0, id).taken));
    setTimeout(() => res.end(), 50);
  };
  const sent = await deliveries.send(0, ...Array(600).fill({}));
  deliveries.deliverer();
  await arrived(tool, 600);
  await settled(deliveries);
  t.equal(tool.mostAtOnce, 16);
  t.equal(Math.max(...counts), 16);
  t.same(ids(tool).sort(), sent.sort());
});

t.test('what fails comes again under the same id until it is taken, and holds nothing else up', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  await deliveries.receiver(tool);
  let failures = 2;
  tool.answer = (res, { body }) =>
    void res.writeHead(body.data.payload.bad && failures-- > 0 ? 500 : 204).end();
  const [bad, good] = await deliveries.send(0, { payload: { bad: true } }, {});
  deliveries.deliverer();
  await settled(deliveries);
  t.same(
    ids(tool).filter((id) => id === bad),
    [bad, bad, bad],
  );
  t.same(
    ids(tool).filter((id) => id === good),
    [good],
  );
  t.match(await statusOf(deliveries), { delivered: 2, failures: 2, dead: 0, lastError: 'answered 500' });
});

const NOWHERE = 'http://127.0.0.1:1/';
for (const [what, answer, why] of [
  ['a redirect', (res) => res.writeHead(302, { location: 'http://169.254.169.254/' }).end(), 'answered 302'],
  ['400', (res) => res.writeHead(400).end('no'), 'answered 400'],
  ['a Retry-After of 500', (res) => res.writeHead(500, { 'retry-after': '0' }).end(), 'answered 500'],
  [
    'a Retry-After that is none',
    (res) => res.writeHead(503, { 'retry-after': 'soon' }).end(),
    'answered 503',
  ],
  ['no answer in time', () => {}, /^no answer in 0\.3 s$/],
  ['a broken connection', (res) => res.destroy(), /ECONNRESET|socket hang up/],
  ['half a head', (res) => res.socket?.write('HTTP/1.1 200'), /^no answer in/],
  [NOWHERE, () => {}, 'ECONNREFUSED'],
] satisfies readonly [string, Tool['answer'], string | RegExp][])
  t.test(`${what} is a failure, and after the last attempt a dead letter`, async (t) => {
    const [deliveries, tool] = [await open(t), await startTool(t)];
    const { id } = await deliveries.receiver(tool, what === NOWHERE ? { url: NOWHERE } : {});
    tool.answer = answer;
    await deliveries.send(0, {});
    deliveries.deliverer({ answerMs: 300 });
    await settled(deliveries);
    t.equal(tool.delivered.length, what === NOWHERE ? 0 : 4, 'the first attempt and three more');
    const { failures, dead, lastError } = await statusOf(deliveries);
    t.same([failures, dead], [4, 1]);
    t.match(lastError, why);
    const { dead: key } = deliveries.store.keys.deliveries(0, id);
    t.equal(await deliveries.store.client.xlen(key), 1);
  });

t.test('a Retry-After of 429 or 503 is waited for, and is no attempt', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  await deliveries.receiver(tool);
  let left = 8;
  const at: number[] = [];
  tool.answer = (res) => {
    at.push(Date.now());
    const soon = left % 2 === 0 ? '0' : 'Thu, 01 Jan 1970 00:00:00 GMT';
    if (left-- > 1) return void res.writeHead(left % 3 === 0 ? 503 : 429, { 'retry-after': soon }).end();
    if (left === 0) return void res.writeHead(429, { 'retry-after': '1' }).end();
    res.end();
  };
  await deliveries.send(0, {});
  deliveries.deliverer();
  await settled(deliveries);
  t.equal(tool.delivered.length, 9, 'more than there are attempts');
  t.match(await statusOf(deliveries), { delivered: 1, failures: 8, dead: 0 });
  const [asked = 0, again = 0] = at.slice(-2);
  t.ok(again - asked >= 1_000, 'not before it may come again');
});

t.test('a Retry-After says when a delivery is due again, at most 24 h later', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  const { id } = await deliveries.receiver(tool);
  const inMs = (ms: number) => new Date(Date.now() + ms).toUTCString();
  const cases: [retryAfter: string, hours: number][] = [
    [inMs(3_600_000), 1],
    [inMs(3e10), 24],
    ['99999999999', 24],
  ];
  tool.answer = (res, { body }) =>
    void res.writeHead(503, { 'retry-after': body.data.payload.retryAfter }).end();
  await deliveries.send(0, ...cases.map(([retryAfter]) => ({ payload: { retryAfter } })));
  deliveries.deliverer();
  const { taken } = deliveries.store.keys.deliveries(0, id);
  await until('all have failed', async () => (await statusOf(deliveries)).failures === cases.length);
  const entries = await deliveries.store.client.zrange(taken, '0', '-1', 'WITHSCORES');
  const due = entries.filter((_, i) => i % 2 === 1).map(Number);
  t.ok(
    due.every((score) => score % 16 === 0),
    'no attempt was made',
  );
  const hours = due.map((score) => (score / 16 - Date.now()) / 3_600_000).sort((a, b) => a - b);
  for (const [i, [, expected]] of cases.entries())
    t.equal(Math.round((hours[i] as number) / expected), 1, `${expected} h, or up to a tenth more`);
});

t.test(
  'an answer of 10 MB, or one that never ends, is a success of which no more than a little is read',
  async (t) => {
    const [deliveries, tool] = [await open(t), await startTool(t)];
    await deliveries.receiver(tool);
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
    await deliveries.send(0, {});
    deliveries.deliverer({ answerMs: 1_000 });
    await settled(deliveries);
    tool.answer = (res) => void res.writeHead(200).write('x');
    await deliveries.send(0, {}, {});
    await settled(deliveries);
    t.ok(written < 9_000_000, `${written} bytes were written`);
    t.match(await statusOf(deliveries), { delivered: 3, failures: 0 });
  },
);

t.test('410 disables a receiver; what waits for it is sent once it is resumed', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  const { id } = await deliveries.receiver(tool);
  tool.answer = (res) => void res.writeHead(410).end();
  const deliverer = deliveries.deliverer();
  const [first] = await deliveries.send(0, {});
  await until('it is disabled', async () => !(await deliveries.receivers.get(id)).isEnabled);
  const [second] = await deliveries.send(0, {});
  await sleep(600);
  t.same(ids(tool), [first]);
  t.match(await statusOf(deliveries), { pending: 2, lastError: 'answered 410' });
  const why = async () => (await deliveries.receivers.get(id)).disabledWhy;
  t.equal(await why(), 'it answered 410');
  await deliveries.receivers.change(id, { isEnabled: false });
  t.equal(await why(), 'it answered 410', 'a pause does not hide it');
  tool.answer = (res) => void res.end();
  await deliveries.receivers.change(id, { isEnabled: true });
  await deliveries.receivers.change(id, { isEnabled: false });
  t.equal(await why(), undefined, 'of a receiver that was resumed, and then paused');
  await deliveries.receivers.change(id, { isEnabled: true });
  await settled(deliveries);
  t.same(ids(tool).slice(1).sort(), [first, second].sort());

  tool.answer = (res) => void res.writeHead(410).end();
  await deliverer.close();
  await deliveries.send(0, {});
  deliveries.deliverer({ retriesMs: [] });
  await until('it is disabled', async () => !(await deliveries.receivers.get(id)).isEnabled);
  t.match(
    await statusOf(deliveries),
    { pending: 0, dead: 1 },
    'at the last attempt it is a dead letter, too',
  );
});

t.test('a receiver without a success for too long is disabled; one success begins anew', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  const { id } = await deliveries.receiver(tool);
  const isEnabled = async () => (await deliveries.receivers.get(id)).isEnabled;
  const { state } = deliveries.store.keys.deliveries(0, id);
  const failedAgo = (ms: number) => deliveries.store.client.hset(state, 'failingSince', Date.now() - ms);
  const DAY = 24 * 60 * 60_000;
  deliveries.deliverer();
  await deliveries.send(0, {});
  await arrived(tool, 1);
  await settled(deliveries);
  await failedAgo(6 * DAY);
  await deliveries.send(0, {});
  await settled(deliveries);
  t.ok(await isEnabled(), 'it has succeeded');
  tool.answer = (res) => void res.writeHead(500).end();
  await failedAgo(4 * DAY);
  await deliveries.store.client.hset(state, 'lastSuccessAt', Date.now() - 4 * DAY);
  await deliveries.send(0, {});
  await settled(deliveries);
  t.ok(await isEnabled(), 'four days');
  await failedAgo(6 * DAY);
  await deliveries.send(0, {});
  await settled(deliveries);
  await sleep(300);
  t.ok(await isEnabled(), 'six days beside this stream, but a success beside another one four days ago');
  await failedAgo(5 * DAY + 1_000);
  await deliveries.store.client.hset(state, 'lastSuccessAt', Date.now() - 5 * DAY - 1_000);
  await deliveries.send(0, {});
  await until('it is disabled', async () => !(await isEnabled()));
});

t.test(
  'beyond its bytes the oldest deliveries become dead letters, and of these the oldest go',
  async (t) => {
    const [deliveries, tool] = [await open(t), await startTool(t)];
    const { id } = await deliveries.receiver(tool);
    const payload = { text: 'x'.repeat(900) };
    const sent: string[] = [];
    const { store } = deliveries;
    const small = openHandOver(store.client, store.keys, 10_000, pino({ level: 'silent' }));
    const queue = store.keys.deliveries(0, id);
    for (let i = 0; i < 30; i++) {
      const identity = { ...WHO, customerId: null, sessionId: 's' };
      const line = encodeEvent({ type: 'add', origin: 'item', profileId: `1.s${i}`, identity, payload });
      sent.push((JSON.parse(line) as { event_id: string }).event_id);
      await small.handOver(0, Buffer.from(line), []);
    }
    const eventsOf = async (key: string) =>
      (await store.client.xrange(key, '-', '+')).map(
        ([, [, line = '']]) => JSON.parse(line).event_id as string,
      );
    const [waiting, dead] = [await eventsOf(queue.queue), await eventsOf(queue.dead)];
    t.ok(waiting.length >= 5 && waiting.length <= 10);
    t.same(waiting, sent.slice(-waiting.length));
    t.same(dead, sent.slice(-waiting.length - dead.length, -waiting.length));
    t.ok(dead.length >= 5 && dead.length <= 10);
    const { bytes, dead: count } = await statusOf(deliveries);
    t.ok(bytes <= 10_000);
    t.equal(count, 30 - waiting.length);
    t.ok(Number(await store.client.hget(queue.state, 'deadBytes')) <= 10_000);
  },
);

t.test(
  'names and addresses are sent only to a receiver that was made for them, with the present profile',
  async (t) => {
    const app = await startApp(t, redis);
    const deliveries = await openDeliveries(t, redis, app.prefix);
    const [plain, personal] = [await startTool(t), await startTool(t)];
    await deliveries.receiver(plain);
    await deliveries.receiver(personal, { includePersonal: true });
    const { profileId: guest } = await app.shop.event({ sessionId: 's-1' });
    await app.shop.event({ customerId: '7', email: 'ada@shop.example', firstName: 'Ada', lastName: 'Byron' });
    const { profileId } = await app.shop.login({ customerId: '7', sessionId: 's-1' });
    t.not(guest, profileId);
    await deliveries.send(0, { profileId: guest, identity: { ...WHO, customerId: null, sessionId: 's-1' } });
    deliveries.deliverer();
    await arrived(plain, 1);
    await arrived(personal, 1);
    t.equal(plain.delivered[0]?.body.data.profileId, profileId);
    t.notMatch(JSON.stringify(plain.delivered), /ada|Ada|Byron|email/);
    t.match(personal.delivered[0]?.body.data, {
      profileId,
      email: 'ada@shop.example',
      firstName: 'Ada',
      lastName: 'Byron',
    });
  },
);

t.test(
  'a receiver that is removed has nothing waiting, also what is handed over in that moment',
  async (t) => {
    const [deliveries, tool] = [await open(t), await startTool(t)];
    const { store, receivers } = deliveries;
    const { id } = await deliveries.receiver(tool);
    await deliveries.send(0, {});
    const removing = new Proxy(store.client, {
      get(client, name) {
        const own = Reflect.get(client, name);
        if (name !== 'hvals') return typeof own === 'function' ? own.bind(client) : own;
        return async (key: string) => {
          const read = await client.hvals(key);
          await receivers.remove(id);
          return read;
        };
      },
    });
    const late = openHandOver(removing, store.keys, 10_000, pino({ level: 'silent' }));
    const identity = { ...WHO, customerId: null, sessionId: 's' };
    const line = encodeEvent({ type: 'add', origin: 'item', profileId: '1.s', identity, payload: {} });
    await late.handOver(0, Buffer.from(line), []);
    t.equal(await store.client.exists(...Object.values(store.keys.deliveries(0, id))), 0);
    t.equal(await store.client.exists(store.keys.receivers), 0);
  },
);

t.test('one that stops waits for the answer that is due, and its delivery is settled', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  await deliveries.receiver(tool);
  const held: (() => void)[] = [];
  tool.answer = (res) => void held.push(() => res.end());
  const sent = await deliveries.send(0, ...Array(20).fill({}));
  const deliverer = deliveries.deliverer();
  await until('as many as may be are in flight', () => held.length === 16);
  const closed = deliverer.close();
  // One beside it goes on with the rest.
  deliveries.deliverer();
  await until('the rest has come', () => held.length === 20);
  for (const answer of held) answer();
  await closed;
  await settled(deliveries);
  t.same(ids(tool).sort(), sent.sort());
});

t.test('one that stops drops what has no answer by its deadline, and another sends it again', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  await deliveries.receiver(tool);
  tool.answer = () => {};
  const [id] = await deliveries.send(0, {});
  const deliverer = deliveries.deliverer({ leaseMs: 1_000 });
  await arrived(tool, 1);
  await deliverer.close(0);
  tool.answer = (res) => void res.end();
  deliveries.deliverer();
  await settled(deliveries);
  t.same(ids(tool), [id, id]);
  t.match(await statusOf(deliveries), { delivered: 1, failures: 0 }, 'it is no attempt');
});

t.test('of twenty receivers some hang or fail: the others get all, and those once they answer', async (t) => {
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
  const sent = await deliveries.send(0, ...Array(100).fill({}));
  const [failing, others] = [0, 1].map((of) => tools.filter((_, i) => Math.sign(i % 5) === of)) as [
    Tool[],
    Tool[],
  ];
  for (const tool of others) {
    await arrived(tool, 100);
    t.same(ids(tool).sort(), [...sent].sort());
  }
  for (const tool of failing) tool.answer = (res) => void res.end();
  for (const res of held) res.end();
  for (const tool of failing) await until('all have arrived', () => new Set(ids(tool)).size === 100);
  t.same(
    tools.flatMap(({ faults }) => faults),
    [],
  );
});

t.test('what another program queues or removes is not sent, and holds nothing up', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  const { id } = await deliveries.receiver(tool);
  const { queue, taken } = deliveries.store.keys.deliveries(0, id);
  const { client } = deliveries.store;
  tool.answer = (res) => void res.writeHead(500).end();
  await deliveries.send(0, ...Array(3).fill({}));
  const first = deliveries.deliverer({ retriesMs: [300, 300] });
  await until('all have failed', async () => (await statusOf(deliveries)).failures === 3);
  await first.close();
  const [[removed] = ['']] = await client.xrange(queue, '-', '+');
  await client.xdel(queue, removed);
  const event = { event_id: '1', type: 'add', profile_id: '1.s', occurred_at: 1 };
  const foreign = [
    ...[{ event_id: 1 }, { type: undefined }, { profile_id: undefined }, { occurred_at: undefined }],
    ...[{ occurred_at: 1e18 }, { payload: '{' }],
  ].map((wrong) => JSON.stringify({ ...event, ...wrong }));
  await (await deliveries.receivers.queues(id))[0]?.add(['no JSON', ...foreign]);
  tool.delivered.length = 0;
  tool.answer = (res) => void res.end();
  const [sent = ''] = await deliveries.send(0, {});
  deliveries.deliverer();
  await settled(deliveries);
  t.equal(tool.delivered.length, 3);
  t.ok(ids(tool).includes(sent));
  t.match(await statusOf(deliveries), { dead: 7, delivered: 3 });
  t.equal(await client.zcard(taken), 0);
});

t.test('two that deliver from a cluster send nothing twice, and what one leaves the other has', async (t) => {
  const deliveries = await open(t, await startTestCluster(t));
  const tool = await startTool(t);
  await deliveries.receiver(tool);
  const streams = await until('each master has a stream', async () => {
    const all = await streamsOf(deliveries.store.client, deliveries.store.keys);
    return all.length >= 3 && all;
  });
  tool.answer = (res) => void setTimeout(() => res.end(), 5);
  const one = deliveries.deliverer();
  deliveries.deliverer();
  const sent: string[] = [];
  const sendRound = async () => {
    for (const stream of streams) sent.push(...(await deliveries.send(stream, ...Array(10).fill({}))));
  };
  for (let round = 0; round < 10; round++) await sendRound();
  await until('some have arrived', () => tool.delivered.length > 0);
  await one.close();
  for (let round = 0; round < 10; round++) await sendRound();
  await settled(deliveries);
  t.same(ids(tool).sort(), sent.sort());
});

t.test('what is logged has no secret, no signature and no visitor', async (t) => {
  const [deliveries, tool] = [await open(t), await startTool(t)];
  const { id, secret } = await deliveries.receiver(tool);
  tool.answer = (res) => void res.writeHead(410).end('no');
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line) => lines.push(line) });
  await deliveries.send(0, { profileId: '1.sLogged' });
  deliveries.deliverer({ log });
  await until('it is disabled', () => lines.some((line) => line.includes('a receiver is disabled')));
  t.match(lines.join(''), id);
  t.notOk(lines.join('').includes(secret.slice(10)));
  t.notMatch(lines.join(''), /v1,|sLogged|s-1/);
});
