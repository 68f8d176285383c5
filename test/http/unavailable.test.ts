// Redis down, frozen, full, demoted, and back: 503 in time, nothing lost that was acknowledged, nothing applied that was refused.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { type AppSettings, eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import type { Answer } from '../harness/client.js';
import { operationsOf } from '../harness/operations.js';
import { connectTo, connectToEach, startTestCluster, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { itemOf } from './wishlist.js';

const PATH = '/product/visit';
/** Milliseconds until Redis counts as not answering, in tests that wait for that. */
const TIMEOUT_MS = 500;
const visitOf = (sessionId: string) => ({ identity: { sessionId }, productHandle: 'x' });
function expectUnavailable(t: Test, answer: Answer, what: string): void {
  const error = 'The store does not answer; send the request again.';
  const headers = { 'retry-after': /^[1-9]\d*$/ };
  t.match(answer, { status: 503, headers, json: { code: 'unavailable', error } }, what);
}
/**
 * Leaves out products, which are off, and receivers, which ask a name server first. Pages:
 * share-page.test.ts.
 */
async function expectAllUnavailable(t: Test, app: TestApp): Promise<void> {
  const asked = (await operationsOf(app)).filter(({ path }) =>
    /^\/(product\/|event|item|share|profile|settings|webhook\/(?!products))/.test(path),
  );
  t.ok(asked.length >= 22, `${asked.length} operations`);
  const both = { customerId: 'c', sessionId: 's' };
  await Promise.all([
    ...asked.map(async ({ name, method, path, body, query }) => {
      const target = withQuery(path.replace('{code}', 'a'.repeat(19)), query);
      expectUnavailable(t, await app.send(method, target, body, TRUSTED), name);
    }),
    app.post(PATH, visitOf('s')).then((answer) => expectUnavailable(t, answer, 'without a key')),
    app
      .post(PATH, { identity: both, productHandle: 'x' }, TRUSTED)
      .then((answer) => expectUnavailable(t, answer, 'link')),
  ]);
  const error = 'Not ready: Redis does not answer.';
  t.match(await app.get('/readyz'), { status: 503, json: { code: 'unavailable', error } });
  t.equal((await app.get('/healthz')).status, 200, 'the process is up');
}
const untilReady = (app: TestApp) =>
  until('it is ready', async () => (await app.get('/readyz')).status === 200);
t.test(
  'while Redis is stopped every operation is 503, and its counts are there when it is back',
  async (t) => {
    const dir = await mkdtemp(join(tmpdir(), 'wm-back-'));
    t.teardown(() => rm(dir, { recursive: true, force: true }));
    const first = await startTestRedis(t, { dir });
    const patient = await startApp(t, first);
    const app = await startApp(t, first, { timeoutMs: TIMEOUT_MS, prefix: patient.prefix });
    for (let i = 0; i < 3; i++) await patient.post(PATH, visitOf('s'));
    const waiting = () => app.figure('stream_pending_events{stream="0"}');
    t.equal(await waiting(), 0);
    await first.stop();

    await expectAllUnavailable(t, app);
    t.same([await app.figure('redis_up'), await waiting()], [0, undefined], 'no figure is old');

    await startTestRedis(t, { dir });
    await untilReady(app);
    await untilReady(patient);
    t.match(await patient.post(`${PATH}?count=true`, visitOf('s')), { status: 200, json: { count: 4 } });
    const event = { identity: { sessionId: 's' }, type: 'add' };
    t.equal((await patient.post('/event', event, TRUSTED)).status, 200);
  },
);
t.test('while Redis is frozen every operation is 503, and none is applied late', async (t) => {
  const redis = await startTestRedis(t);
  const patient = await startApp(t, redis);
  const app = await startApp(t, redis, { timeoutMs: TIMEOUT_MS, prefix: patient.prefix });
  const event = { identity: { sessionId: 's' }, type: 'add' };
  t.equal((await patient.post(PATH, visitOf('s'))).status, 200);
  t.equal((await patient.post('/event', event, TRUSTED)).status, 200);

  const pid = redis.pids[0] as number;
  process.kill(pid, 'SIGSTOP');
  t.teardown(() => redis.pids[0] && process.kill(pid, 'SIGCONT'));
  // One after the other, so that they find the batcher with channels free, all busy, and full.
  const answers: Promise<Answer>[] = [];
  for (let i = 0; i < 70; i++) {
    answers.push(i % 7 === 6 ? app.post('/event', event, TRUSTED) : app.post(PATH, visitOf('s')));
    await sleep(5);
  }
  for (const [i, answer] of (await Promise.all(answers)).entries())
    expectUnavailable(t, answer, `request ${i}`);
  await expectAllUnavailable(t, app);
  process.kill(pid, 'SIGCONT');
  await untilReady(app);

  const counted = await patient.post(`${PATH}?count=true`, visitOf('s'));
  t.match(counted, { status: 200, json: { count: 2 } }, 'what got 503 was not applied late');
  t.equal((await patient.post('/event', event, TRUSTED)).status, 200);
  t.equal((await patient.rows()).length, 2, 'nor was an event');
});
eachRedis(t, async (t, redis) => {
  t.test(
    'at maxmemory reads are answered, also after a restart, and writes get 503 with the reason',
    async (t) => {
      const app = await startApp(t, redis);
      const nodes = connectToEach(t, redis.urls);
      const setMaxMemory = (bytes: number) =>
        Promise.all(nodes.map((node) => node.config('SET', 'maxmemory', bytes)));
      t.teardown(() => setMaxMemory(0));
      const identity = { sessionId: 'reader' };
      const member = { sessionId: 'member', customerId: '7' };
      for (const who of [identity, member]) {
        await app.shop.visit(who, 'x');
        await app.shop.add(who);
      }
      const { code } = await app.shop.share(identity);
      await app.shop.event(identity);
      await setMaxMemory(1);
      const ids = (who: object) => ({ ...who, productHandle: 'x' });
      const reads = (app: TestApp) => ({
        count: app.get(withQuery(PATH, ids(identity)), TRUSTED),
        'count of a member': app.get(withQuery(PATH, ids({ customerId: '7' })), TRUSTED),
        counts: app.post(`${PATH}/list`, { identity, productHandles: ['x'] }),
        items: app.post('/item/list', { identity }, TRUSTED),
        'count of items': app.post('/item/count', { identity }, TRUSTED),
        'items of a member': app.post('/item/list', { identity: { customerId: '7' } }, TRUSTED),
        'items of a share': app.get(`/share/${code}/items`, TRUSTED),
        'share page': app.get(`/wishlist/share/${code}`),
        export: app.get('/profile?sessionId=reader', TRUSTED),
        settings: app.get('/settings', TRUSTED),
      });
      const writes = () => [
        ...Array.from({ length: 8 }, (_, i) => app.post(PATH, visitOf(`new${i}`))),
        app.post('/item/add', itemOf({ sessionId: 'new' }), TRUSTED),
        app.post('/event', { identity, type: 'add' }, TRUSTED),
        app.post('/profile/guest', { sessionId: 'new' }, TRUSTED),
        app.send('PUT', '/settings', { autoRemoveAfterPurchase: true }, TRUSTED),
      ];
      const full = {
        status: 503,
        headers: { 'retry-after': '1' },
        json: { code: 'overloaded', error: 'Redis is at its maxmemory; send the request again.' },
      };
      for (let round = 0; round < 3; round++) {
        const refused = writes();
        for (const [what, answer] of Object.entries(reads(app))) t.equal((await answer).status, 200, what);
        for (const answer of await Promise.all(refused)) t.match(answer, full);
      }
      t.ok(await app.figure('http_refused_total{code="overloaded",why="memory"}'));

      const restarted = await startApp(t, redis, { prefix: app.prefix });
      for (const [what, answer] of Object.entries(reads(restarted)))
        t.equal((await answer).status, 200, `${what}, after a restart`);
      t.match(await restarted.del('/profile', { identity }, TRUSTED), {
        status: 200,
        json: { erased: true },
      });
    },
  );
});
t.test('at maxmemory each operation of a batch with a reset is answered 200 or 503', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);
  const direct = connectTo(t, redis.url);
  const rounds = 10;
  // A reset of a visitor's last count needs memory, a reset of one of two counts frees some: half of each.
  for (let round = 0; round < rounds; round++) {
    await app.post(PATH, visitOf(`reset${round}`));
    if (round % 2) await app.post(PATH, { ...visitOf(`reset${round}`), productHandle: 'y' });
  }
  await direct.config('SET', 'maxmemory', '1');
  let refused = 0;
  for (let round = 0; round < rounds; round++) {
    // A reset that frees memory is accepted; the script may write from then on, but earlier refusals stay.
    const visits = Array.from({ length: 8 }, (_, i) => app.post(PATH, visitOf(`new${round}-${i}`)));
    const answers = await Promise.all([...visits, app.del(PATH, visitOf(`reset${round}`))]);
    for (const { status } of answers) if (status !== 200 && status !== 503) t.fail(`${status}`);
    refused += answers.filter(({ status }) => status === 503).length;
  }
  t.ok(refused >= rounds, `${refused} refused`);
  const troubles = ['Redis has no memory left: maxmemory is reached'];
  const ready = { status: 200, json: { status: 'ready', troubles } };
  t.match(await app.get('/readyz'), ready, 'reads are answered');
  await direct.config('SET', 'maxmemory', '0');
  t.equal((await app.post(PATH, visitOf('new'))).status, 200);
});
t.test('many probes of /readyz within a second ask Redis once', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { timeoutMs: TIMEOUT_MS, timing: { now: () => 0 } });
  const direct = connectTo(t, redis.url);
  const checks = async () => Number(/_info:calls=(\d+)/.exec(await direct.info('commandstats'))?.[1] ?? 0);
  const before = await checks();
  const statuses = new Set<number>();
  for (let i = 0; i < 500; i++) statuses.add((await app.get('/readyz')).status);
  t.same(statuses, new Set([200]));
  t.ok((await checks()) - before < 100, 'all others are those of the background');
  await redis.stop();
  const isReady = async () => (await app.get('/readyz')).status === 200;
  await until('what is noticed without a look is said', async () => !(await isReady()));
});
t.test(
  'serve is not ready while its Redis is demoted, because that answers but takes no writes',
  async (t) => {
    const redis = await startTestRedis(t);
    const patient = await startApp(t, redis);
    const app = await startApp(t, redis, { timeoutMs: TIMEOUT_MS });
    const direct = connectTo(t, redis.url);
    const redisUp = () => app.figure('redis_up');
    t.equal((await patient.post(PATH, visitOf('s'))).status, 200);
    t.equal(await redisUp(), 1);
    await direct.replicaof('127.0.0.1', await freePort());
    t.equal((await app.get('/readyz')).status, 503);
    t.equal(await redisUp(), 0);
    t.equal((await app.post(PATH, visitOf('s'))).status, 503);
    await direct.replicaof('NO', 'ONE');
    await untilReady(patient);
    t.equal((await patient.post(PATH, visitOf('s'))).status, 200);
    await until('it is up again', async () => (await redisUp()) === 1);
  },
);

const SILENT = 'Redis does not answer';
const FULL = 'Redis has no memory left: maxmemory is reached';
t.setTimeout(240_000);
type Line = Readonly<Record<string, unknown>>;
async function open(t: Test, redis: { readonly urls: readonly string[] }, settings: AppSettings = {}) {
  const lines: Line[] = [];
  const onLog = (line: Line) => {
    if (String(line['msg']).startsWith('an outage')) lines.push(line);
  };
  const app = await startApp(t, redis, { timeoutMs: TIMEOUT_MS, onLog, ...settings });
  let visits = 0;
  return {
    app,
    lines,
    visit: async (visitors: number) => {
      const bodies = Array.from({ length: visitors }, () => visitOf(`s${visits++}`));
      const answers = await Promise.all(bodies.map((body) => app.post(PATH, body)));
      return new Set(answers.map(({ status }) => status));
    },
    masters: async () => {
      const text = await app.stats();
      return ['up', 'readonly', 'away'].map((state) =>
        Number(new RegExp(`^wishmeter_redis_masters{state="${state}"} (\\d+)$`, 'm').exec(text)?.[1]),
      );
    },
    readyz: async () => {
      const { status, json } = await app.get('/readyz');
      return { status, said: json.error ?? json.troubles };
    },
    untilReady: () =>
      until('all of it is ready', async () => !('troubles' in (await app.get('/readyz')).json)),
    line: (wanted: Line) =>
      until(`logged: ${JSON.stringify(wanted)}`, () =>
        lines.find((line) => Object.entries(wanted).every(([name, value]) => line[name] === value)),
      ),
  };
}
/** A cluster in which two masters keep serving their slots while the third is dead. */
t.test('three masters', { timeout: 240_000 }, async (t) => {
  const cluster = await startTestCluster(t);
  const nodes = connectToEach(t, cluster.urls);
  for (const node of nodes) await node.config('SET', 'cluster-require-full-coverage', 'no');
  const patient = await startApp(t, cluster);
  let aheadMs = 0;
  const { app, visit, masters, readyz, untilReady, line } = await open(t, cluster, {
    timeoutMs: 2_000,
    prefix: patient.prefix,
    timing: { now: () => performance.now() + aheadMs },
  });
  const address = (node: number) => new URL(cluster.urls[node] as string).host;
  const freeze = (t: Test, ...pids: (number | undefined)[]) => {
    const thaw = () => pids.map((pid) => process.kill(pid as number, 'SIGCONT'));
    for (const pid of pids) process.kill(pid as number, 'SIGSTOP');
    t.teardown(thaw);
    return thaw;
  };
  await untilReady();
  t.same(await masters(), [3, 0, 0]);
  t.same(await readyz(), { status: 200, said: undefined });

  t.test('with one of three masters frozen serve is ready, and the log names the master', async (t) => {
    const thaw = freeze(t, cluster.pids[1]);
    t.same([...(await visit(60))].sort(), [200, 503]);
    t.same(await readyz(), { status: 200, said: [`1 of 3 masters: ${SILENT}`] });
    t.same(await masters(), [2, 0, 1]);
    await line({ msg: 'an outage has begun', master: address(1), why: SILENT });
    const { answers } = await line({ msg: 'an outage has begun', code: 'unavailable' });
    t.ok(Number(answers) > 0);
    thaw();
    await untilReady();
    t.same(await masters(), [3, 0, 0]);
    aheadMs += 5_000;
    await line({ msg: 'an outage has ended', master: address(1) });
  });

  t.test('with one of three masters frozen a batch counts exactly its acknowledged visits', async (t) => {
    const plain = Array.from({ length: 60 }, (_, i) => visitOf(`node-${i}`));
    const send = (by: TestApp, visits: object[]) => by.post(`${PATH}/batch?count=true`, { visits }, TRUSTED);
    t.equal((await send(patient, plain)).status, 200);
    // For each customer a first visit, which links, and then a visit of the session.
    const pairs = plain.flatMap((_, i) => [
      { identity: { customerId: `c-${i}`, sessionId: `s-${i}` }, productHandle: 'x' },
      visitOf(`s-${i}`),
    ]);
    const thaw = freeze(t, cluster.pids[1]);
    const single = await app.post(PATH, visitOf('node-0'));
    const { status, json } = await send(app, [...plain, ...pairs]);
    thaw();
    t.equal(status, 200);
    await untilReady();
    const isDone = (i: number) => json.results[i].code === undefined;
    for (const i of plain.keys()) {
      const count = i === 0 && single.status === 200 ? 3 : 2;
      t.match(json.results[i], isDone(i) ? { productHandle: 'x', count } : { code: 'unavailable' });
    }
    const left = plain.filter((_, i) => !isDone(i));
    t.ok(left.length > 0 && left.length < 60, `${left.length} of 60 were not counted`);
    const again = (await send(patient, left)).json.results;
    t.same(new Set(again.map(({ count }: { count: number }) => count)), new Set([2]), 'counted once each');
    const undone = pairs.filter((_, i) => !isDone(plain.length + i));
    t.equal((await send(patient, undone)).status, 200);
    const customers = plain.map((_, i) => patient.shop.count({ customerId: `c-${i}` }, 'x'));
    t.same(new Set(await Promise.all(customers)), new Set([2]));
  });

  t.test('with one of three masters at maxmemory serve is ready', async (t) => {
    await nodes[1]?.config('SET', 'maxmemory', '1');
    t.same([...(await visit(60))].sort(), [200, 503]);
    await until('it says so', async () => (await readyz()).said?.[0] === `1 of 3 masters: ${FULL}`);
    t.equal((await readyz()).status, 200);
    t.same(await masters(), [2, 1, 0]);
    await line({ msg: 'an outage has begun', master: address(1), why: FULL });
    await line({ msg: 'an outage has begun', code: 'overloaded', why: 'memory' });
    await nodes[1]?.config('SET', 'maxmemory', '0');
    await untilReady();
    t.same([...(await visit(60))], [200]);
  });

  t.test('with all three masters frozen serve is not ready', async (t) => {
    const thaw = freeze(t, ...cluster.pids);
    await until('it says so', async () => (await readyz()).status === 503);
    t.same(await readyz(), { status: 503, said: `Not ready: ${SILENT}.` });
    t.same(await masters(), [0, 0, 3]);
    thaw();
    await until('it is ready again', async () => (await readyz()).status === 200);
    await untilReady();
  });

  t.test('serve starts while one of three masters is frozen', async (t) => {
    const hasMeta = await Promise.all(nodes.map((node) => node.exists(`${app.prefix}:meta`).catch(() => 0)));
    const thaw = freeze(t, cluster.pids[hasMeta.indexOf(0)]);
    const second = await open(t, cluster, { prefix: app.prefix });
    t.same(await second.readyz(), { status: 200, said: [`1 of 3 masters: ${SILENT}`] });
    t.same([...(await second.visit(60))].sort(), [200, 503]);
    thaw();
    await untilReady();
  });
});
t.test(
  'an outage is a few lines of the log, with how many requests were refused and for how long',
  async (t) => {
    const redis = await startTestRedis(t);
    const direct = connectTo(t, redis.url);
    let now = 0;
    const { lines, visit, line } = await open(t, redis, { timing: { now: () => now }, timeoutMs: 20_000 });
    await direct.config('SET', 'maxmemory', '1');
    t.same([...(await visit(40))], [503]);
    const cause = { code: 'overloaded', why: 'memory' };
    await line({ msg: 'an outage has begun', ...cause, answers: 40, seconds: 0 });
    now += 4_000;
    t.same([...(await visit(10))], [503]);
    now += 4_000;
    t.same([...(await visit(10))], [503]);
    now += 4_000;
    for (; now < 28_000; now += 4_000) t.same([...(await visit(1))], [503]);
    t.same([...(await visit(1))], [503]);
    now += 3_000;
    const { answers } = await line({ msg: 'an outage goes on', ...cause, seconds: 31 });
    await direct.config('SET', 'maxmemory', '0');
    t.same([...(await visit(10))], [200]);
    now += 5_000;
    await line({ msg: 'an outage has ended', ...cause, answers: Number(answers), seconds: 31 });
    const said = lines.flatMap(({ code, msg }) => (code === undefined ? [] : msg));
    t.same(said, ['an outage has begun', 'an outage goes on', 'an outage has ended'], 'and no more lines');
  },
);
