// A cluster of which one master is away, takes no writes or was drained: balancers go on sending requests here, and /readyz, metrics and
// the log say what is away. And outages in the log: a line when one begins, while it lasts, and when it has ended.

import t, { type Test } from 'tap';
import { slotOf } from '../../src/redis/marks.js';
import { type AppSettings, startApp } from '../harness/app.js';
import { connectTo, connectToEach, startTestCluster, startTestRedis } from '../harness/redis.js';
import { slotsOf } from '../harness/slots.js';
import { until } from '../harness/until.js';

const TIMEOUT_MS = 500;
const SILENT = 'Redis does not answer';
const FULL = 'Redis has no memory left: maxmemory is reached';

t.setTimeout(240_000);

type Line = Readonly<Record<string, unknown>>;

/** An app, and the lines of its log that are about outages. */
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
    /** The statuses of visits of so many new visitors. */
    visit: async (visitors: number) => {
      const bodies = Array.from({ length: visitors }, () => ({
        identity: { sessionId: `s${visits++}` },
        productHandle: 'x',
      }));
      const answers = await Promise.all(bodies.map((body) => app.post('/product/visit', body)));
      return new Set(answers.map(({ status }) => status));
    },
    masters: async () => {
      const text = await app.figures();
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

/** Three masters, of which two serve their slots while the third is dead. */
async function startCluster(t: Test) {
  const cluster = await startTestCluster(t);
  for (const node of connectToEach(t, cluster.urls))
    await node.config('SET', 'cluster-require-full-coverage', 'no');
  return cluster;
}

t.test('one of three masters', { timeout: 120_000 }, async (t) => {
  const cluster = await startCluster(t);
  const { visit, masters, readyz, untilReady, line } = await open(t, cluster);
  const address = (node: number) => new URL(cluster.urls[node] as string).host;
  await untilReady();
  t.same(await masters(), [3, 0, 0]);
  t.same(await readyz(), { status: 200, said: undefined });
  t.same([...(await visit(60))], [200]);

  t.test('that is frozen leaves the process ready', { timeout: 60_000 }, async (t) => {
    process.kill(cluster.pids[1] as number, 'SIGSTOP');
    t.teardown(() => process.kill(cluster.pids[1] as number, 'SIGCONT'));
    t.same([...(await visit(60))].sort(), [200, 503]);
    t.same(await readyz(), { status: 200, said: [`1 of 3 masters: ${SILENT}`] });
    t.same(await masters(), [2, 0, 1]);
    await line({ msg: 'an outage has begun', master: address(1), why: SILENT });
    const { answers } = await line({ msg: 'an outage has begun', code: 'unavailable' });
    t.ok(Number(answers) > 0);
    process.kill(cluster.pids[1] as number, 'SIGCONT');
    await untilReady();
    t.same(await masters(), [3, 0, 0]);
    await line({ msg: 'an outage has ended', master: address(1) });
  });

  t.test('that is at its maxmemory leaves the process ready', { timeout: 60_000 }, async (t) => {
    const node = connectTo(t, cluster.urls[1] as string);
    await node.config('SET', 'maxmemory', '1');
    t.same([...(await visit(60))].sort(), [200, 503]);
    t.same(await readyz(), { status: 200, said: [`1 of 3 masters: ${FULL}`] });
    t.same(await masters(), [2, 1, 0]);
    await line({ msg: 'an outage has begun', master: address(1), why: FULL });
    await line({ msg: 'an outage has begun', code: 'overloaded', why: 'memory' });
    await node.config('SET', 'maxmemory', '0');
    await untilReady();
    t.same([...(await visit(60))], [200]);
  });
});

t.test('a process is not ready while nothing works at all', { timeout: 60_000 }, async (t) => {
  const cluster = await startCluster(t);
  const { readyz, masters, untilReady } = await open(t, cluster);
  await untilReady();
  const thaw = () => cluster.pids.map((pid) => process.kill(pid as number, 'SIGCONT'));
  for (const pid of cluster.pids) process.kill(pid as number, 'SIGSTOP');
  t.teardown(thaw);
  await until('it says so', async () => (await readyz()).status === 503);
  t.same(await readyz(), { status: 503, said: `Not ready: ${SILENT}.` });
  t.same(await masters(), [0, 0, 3]);
  thaw();
  await until('it is ready again', async () => (await readyz()).status === 200);
});

t.test('a process starts while one of three masters is frozen', { timeout: 60_000 }, async (t) => {
  const cluster = await startCluster(t);
  const first = await open(t, cluster);
  await first.untilReady();
  const nodes = connectToEach(t, cluster.urls);
  const hasMeta = await Promise.all(
    nodes.map((node) => node.exists(`${first.app.prefix}:meta`).catch(() => 0)),
  );
  const frozen = hasMeta.indexOf(0);
  process.kill(cluster.pids[frozen] as number, 'SIGSTOP');
  t.teardown(() => process.kill(cluster.pids[frozen] as number, 'SIGCONT'));
  const { readyz, visit } = await open(t, cluster, { prefix: first.app.prefix });
  t.same(await readyz(), { status: 200, said: [`1 of 3 masters: ${SILENT}`] });
  t.same([...(await visit(60))].sort(), [200, 503]);
});

t.test(
  'a stream that no master appends to any more is shown as long as something waits in it',
  { timeout: 60_000 },
  async (t) => {
    const cluster = await startCluster(t);
    const nodes = connectToEach(t, cluster.urls);
    const slots = await slotsOf(nodes, cluster.urls);
    const { app, visit, untilReady } = await open(t, cluster, { timeoutMs: 20_000 });
    await untilReady();
    t.same([...(await visit(60))], [200]);
    const marksOf = async (node: number) => (await nodes[node]?.keys(`${app.prefix}:*:mark`)) as string[];
    const marks = await Promise.all(nodes.map((_, node) => marksOf(node)));
    const from = marks.findIndex((of) => of.length === 1);
    const [mark = ''] = marks[from] ?? [];
    const numberOf = (key: string) => /{(\d+)}/.exec(key)?.[1];
    const events = (stream = numberOf(mark)) => app.figure(`stream_pending_events{stream="${stream}"}`);
    t.equal(await events(), 0);
    await slots.move(
      slotOf(mark),
      from,
      marks.findIndex((of) => of.length === 0),
    );
    await until('it has another mark', async () => (await marksOf(from)).length === 1);
    const [another = ''] = await marksOf(from);
    await until('its new stream is shown', async () => (await events(numberOf(another))) === 0);
    t.equal(await events(), undefined, 'nothing waits in its old one');
    t.ok(
      Number(await app.figure(`visit_stream_pending_visits{stream="${numberOf(mark)}"}`)) > 0,
      'but visits do',
    );
  },
);

t.test(
  'an outage is a few lines of the log, with how many were refused and for how long',
  { timeout: 60_000 },
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
    for (; now < 31_000; now += 4_000) t.same([...(await visit(1))], [503]);
    t.same([...(await visit(1))], [503]);
    const { answers } = await line({ msg: 'an outage goes on', ...cause });
    await direct.config('SET', 'maxmemory', '0');
    t.same([...(await visit(10))], [200]);
    now += 5_000;
    await line({ msg: 'an outage has ended', ...cause, answers: Number(answers) });
    const ofRequests = lines.filter(({ code }) => code !== undefined).map(({ msg }) => msg);
    t.same(
      ofRequests,
      ['an outage has begun', 'an outage goes on', 'an outage has ended'],
      'and no more lines',
    );
  },
);
