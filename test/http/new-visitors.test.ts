// STRANGER_NEW_VISITORS: how many unknown visitors one address may bring in a minute. Those beyond it leave
// nothing behind, and those who are known never notice.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { SETTINGS } from '../../src/config.js';
import { openRateLimits } from '../../src/http/rate-limits.js';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { allKeys, connectTo, dumpRedis } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
import { startTestRedis } from '../harness/redis.js';
import { loggedVisits } from '../harness/stream.js';

const PATH = '/product/visit';
const LIMIT = 20;
const from = (address: string) => ({ 'x-forwarded-for': address });
const signed = (path: string) => proxied(path, { logged_in_customer_id: '' });
const visit = (sessionId: string) => ({ identity: { sessionId }, productHandle: 'p' });
const range = (count: number) => Array.from({ length: count }, (_, i) => i);

eachRedis(t, async (t, redis) => {
  const limited = () =>
    startApp(t, redis, {
      env: {
        STRANGER_NEW_VISITORS: String(LIMIT),
        TRUST_PROXY: '1',
        SHOPIFY_SECRET: SECRET,
        // Guests who are known only by their counts are easier to tell apart.
        VISIT_LOG: 'off',
      },
    });
  const doors = async ({ prefix }: TestApp) => {
    const isDoor = keyPattern(createKeys(prefix).door('*.*'));
    return (await allKeys(redis, prefix)).filter((key) => isDoor.test(key)).length;
  };
  /** Visits of so many new sessions at once. @returns those that were refused */
  const flood = async (app: TestApp, address: string, name: string, count = LIMIT + 10) => {
    const sessions = range(count).map((i) => `${name}-${i}`);
    const answers = await Promise.all(sessions.map((id) => app.post(PATH, visit(id), from(address))));
    const refused = answers.filter(({ status }) => status === 429);
    t.equal(answers.filter(({ status }) => status === 200).length, count - refused.length);
    return { refused, known: sessions.filter((_, i) => answers[i]?.status === 200) };
  };

  t.test('so many come, the others are 429 and leave nothing; those who are known go on', async (t) => {
    const app = await limited();
    const { refused, known } = await flood(app, '192.0.2.1', 'a');
    t.equal(known.length, LIMIT);
    for (const { headers, json } of refused) {
      t.equal(json.code, 'rate_limited');
      t.match(json.error, /new visitors/);
      const seconds = Number(headers['retry-after']);
      t.ok(seconds >= 1 && seconds <= 60, String(seconds));
    }
    t.equal(await doors(app), LIMIT, 'and nothing of those who were refused');
    const before = await dumpRedis(redis, app.prefix);
    await flood(app, '192.0.2.1', 'again', 3);
    t.same(await dumpRedis(redis, app.prefix), before);
    const again = await Promise.all(
      known.map((id) => app.post(`${PATH}?count=true`, visit(id), from('192.0.2.1'))),
    );
    for (const { json } of again) t.equal(json.count, 2);
    t.equal((await app.post(PATH, visit('b'), from('192.0.2.2'))).status, 200, 'another address');
    const trusted = { ...from('192.0.2.1'), ...TRUSTED };
    for (const i of range(LIMIT + 1))
      t.equal((await app.post(PATH, visit(`trusted-${i}`), trusted)).status, 200);
  });

  t.test('who was refused was not counted: neither in the figures nor in the log of visits', async (t) => {
    const app = await startApp(t, redis, { env: { STRANGER_NEW_VISITORS: String(LIMIT) } });
    const paths = [PATH, `${PATH}?count=true`];
    const answers = await Promise.all(
      range(3 * LIMIT).map((i) => app.post(paths[i % 2] as string, visit(`counted-${i}`))),
    );
    const came = answers.filter(({ status }) => status === 200);
    t.equal(answers.filter(({ status }) => status === 429).length, answers.length - came.length);
    t.ok(came.length >= LIMIT && came.length < answers.length, `${came.length} came`);
    const logged = (await loggedVisits(redis, app)).flat().map(([profileId]) => profileId);
    t.same(logged.sort(), came.map(({ json }) => json.profileId).sort());
    t.match(await app.figures(), new RegExp(`^wishmeter_visits_counted_total ${came.length}$`, 'm'));
  });

  t.test('those whom another process knows are known, and take no place', async (t) => {
    const app = await limited();
    const other = await startApp(t, redis, { prefix: app.prefix });
    for (const i of range(2 * LIMIT)) await other.post(PATH, visit(`known-${i}`));
    const returning = await Promise.all(
      range(2 * LIMIT).map((i) => app.post(`${PATH}?count=true`, visit(`known-${i}`), from('192.0.2.1'))),
    );
    for (const { json } of returning.slice(0, LIMIT)) t.equal(json.count, 2);
    t.equal((await flood(app, '192.0.2.1', 'new')).known.length, LIMIT);
  });

  t.test('who only reads or resets is no new visitor', async (t) => {
    const app = await limited();
    for (const i of range(LIMIT + 5)) {
      const query = withQuery(PATH, { sessionId: `r-${i}`, productHandle: 'p' });
      t.equal((await app.get(query, from('192.0.2.1'))).json.count, 0);
      t.equal((await app.del(PATH, visit(`r-${i}`), from('192.0.2.1'))).status, 200);
    }
    t.equal((await flood(app, '192.0.2.1', 'new')).known.length, LIMIT);
  });

  t.test('whatever makes a visitor known is bounded: keys of requests, events, items, shares', async (t) => {
    const app = await limited();
    await flood(app, '192.0.2.1', 'a');
    const before = await dumpRedis(redis, app.prefix);
    const identity = { sessionId: 'late' };
    const item = {
      ...{ productId: '1', productTitle: 'One', productHandle: 'one', image: 'https://a.example/1.png' },
      ...{ price: '1.00', compareAt: null, inventoryAvailable: true, quantity: 1 },
    };
    const requests: [path: string, body: object, headers?: object][] = [
      [PATH, visit('late'), { 'idempotency-key': 'k' }],
      [signed('/event'), { identity, type: 'add' }],
      [signed('/event'), { identity, type: 'add' }, { 'idempotency-key': 'k2' }],
      [signed('/item/add'), { identity, ...item }],
      [signed('/share'), { identity }],
      [signed(PATH), visit('late')],
    ];
    for (const [path, body, headers] of requests) {
      const { status } = await app.post(path, body, { ...from('192.0.2.1'), ...headers });
      t.equal(status, 429, path);
    }
    t.same(await dumpRedis(redis, app.prefix), before);
    for (const [path, body, headers] of requests) {
      const { status } = await app.post(path, body, { ...from('192.0.2.2'), ...headers });
      t.equal(status, 200, path);
    }
  });
});

t.test(
  "a shop's visitors are not taken for one, where no proxy is trusted to tell their addresses",
  async (t) => {
    const redis = await startTestRedis();
    t.teardown(() => redis.stop());
    const env = { STRANGER_NEW_VISITORS: '2', STRANGER_RATE_LIMIT: '2', SHOPIFY_SECRET: SECRET };
    const app = await startApp(t, redis, { env });
    const ask = (path: string) =>
      Promise.all(range(8).map((i) => app.post(path, visit(`${path.length}-${i}`))));
    t.ok((await ask(signed(PATH))).every(({ status }) => status === 200));
    t.ok((await ask(PATH)).some(({ status }) => status === 429));
  },
);

const handle = (i: number) => `${i}-`.padEnd(255, 'x');

/** In the order of the table in docs/api.md: what a stranger fills Redis with. */
const FLOODS: readonly ((i: number) => [body: object, headers?: Record<string, string>])[] = [
  () => [{ identity: { sessionId: randomUUID() }, productHandle: 'linen-shirt-oversized' }],
  (i) => [{ identity: { sessionId: randomUUID() }, productHandle: handle(i) }],
  (i) => [{ identity: { sessionId: `known-${i % 40}` }, productHandle: handle(i) }],
  (i) => [visit(`known-${i % 40}`), { 'idempotency-key': randomUUID().padEnd(255, 'x') }],
];

t.test('a flood of strangers fills Redis as docs/api.md says, and no faster', async (t) => {
  const rows = [
    ...readFileSync('docs/api.md', 'utf8').matchAll(/^\| (the same|[\d,]+).*\| (\d+) \| ([\d.]+) \|$/gm),
  ];
  const visits = 3_000;
  /** What connections and the records of batches take, however many visits there are. */
  const fixed = 256 * 1024;
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const env = { STRANGER_NEW_VISITORS: '0', STRANGER_RATE_LIMIT: '0', VISIT_LOG: 'off' };
  const app = await startApp(t, redis, { env });
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  const used = async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
  const newOnes = 60 * Number(SETTINGS.STRANGER_NEW_VISITORS.fallback);
  const perHour = [newOnes, newOnes, ...Array(2).fill(3_600 * Number(SETTINGS.STRANGER_RATE_LIMIT.fallback))];
  t.equal(rows.length, FLOODS.length);
  for (const [row, [line, hourly = '', bytes, megabytes]] of rows.entries()) {
    if (hourly !== 'the same') t.equal(Number(hourly.replace(',', '')), perHour[row], line);
    t.equal(Number(megabytes), Number(((perHour[row] * Number(bytes)) / 1e6).toPrecision(2)), line);
    const before = await used();
    for (let sent = 0; sent < visits; sent += 100) {
      const posts = range(100).map((i) => {
        const [body, headers] = (FLOODS[row] as (typeof FLOODS)[number])(sent + i);
        return app.post(PATH, body, headers);
      });
      for (const { status } of await Promise.all(posts)) if (status !== 200) t.fail(`${status}`);
    }
    const grown = (await used()) - before;
    t.ok(grown <= visits * Number(bytes) + fixed, `${line}: ${grown} B`);
    t.ok(grown >= (visits * Number(bytes)) / 2, `${line}: ${grown} B is far from it`);
  }
});

t.test('what is refused fills Redis with nothing', async (t) => {
  const most = 500;
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis, { env: { STRANGER_NEW_VISITORS: String(most) } });
  const statuses = new Map<number, number>();
  for (let sent = 0; sent < 3 * most; sent += 100) {
    const posts = range(100).map(() => app.post(PATH, visit(randomUUID())));
    for (const { status } of await Promise.all(posts)) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  // On a machine so slow that it takes minutes, each minute has its own.
  const came = statuses.get(200) ?? 0;
  t.ok(came >= most, `${came} came`);
  t.equal((statuses.get(429) ?? 0) + came, 3 * most);
  const isDoor = keyPattern(createKeys(app.prefix).door('*.*'));
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  t.equal((await client.keys('*')).filter((key) => isDoor.test(key)).length, came);
});

t.test('workers tell each other of each limit by its name', async (t) => {
  const settings = { RATE_LIMIT: 0, STRANGER_RATE_LIMIT: 3, STRANGER_NEW_VISITORS: 3 };
  const sent: unknown[] = [];
  let hear: (value: never) => void = () => {};
  const peers = (onShared: (set: (value: never) => void) => void) => ({
    workers: 2,
    now: () => 1_000_500,
    exchange<T>(onValue: (value: T) => void) {
      onShared(onValue as (value: never) => void);
      return (value: T) => void sent.push(value);
    },
  });
  const here = openRateLimits(
    settings,
    peers(() => {}),
  );
  const there = openRateLimits(
    settings,
    peers((set) => {
      hear = set;
    }),
  );
  t.equal(here.callers, undefined, '0 is no limit');
  for (const _ of range(3)) here.newVisitors?.take('192.0.2.1');
  await new Promise(setImmediate);
  for (const value of sent) hear(value as never);
  t.equal(there.newVisitors?.take('192.0.2.1'), undefined);
  t.not(there.strangers?.take('192.0.2.1'), undefined);
});
