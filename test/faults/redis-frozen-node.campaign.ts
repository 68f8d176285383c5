// "503 (`unavailable`) means that nothing was recorded": visits without an Idempotency-Key are sent again after a 503,
// while one node of a cluster is frozen again and again, and none counts twice. With equal clocks, and with that node's
// clock behind; before each time another node is met anew, and its clock is the last that was asked. FAULTS=full: 500
// visits that were sent again in each run.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { tempDir } from '../cli/wishmeter.js';
import { startApp, withQuery } from '../harness/app.js';
import { connectTo, startTestCluster, type TestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { createFakeClock, findFaketime, redisByClock } from './fake-clock.js';
import { FULL } from './service.js';

const PATH = '/product/visit';
/** Visits that got 503 and were sent again. */
const WANTED = FULL ? 500 : 60;
const [LEAST_ROUNDS, MOST_ROUNDS] = [6, 200];
const FROZEN_MS = 600;
const SENDING_MS = 250;
/** Seconds that the frozen node's clock is off. */
const BEHIND_S = -0.4;

async function freezeAgainAndAgain(t: Test, cluster: TestRedis): Promise<void> {
  const app = await startApp(t, cluster, { timeoutMs: 500 });
  const pid = cluster.pids[0] as number;
  t.teardown(() => process.kill(pid, 'SIGCONT'));
  const other = connectTo(t, cluster.urls[1] as string);
  const meetAnew = async () => {
    await other.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await until('each node is up', async () => (await app.get('/readyz')).status === 200);
  };
  const visits: { sessionId: string; sent: number }[] = [];
  /** Sends a visit until it is acknowledged. */
  const visit = async (sessionId: string) => {
    const one = { sessionId, sent: 0 };
    visits.push(one);
    for (;;) {
      one.sent++;
      const { status } = await app.post(PATH, { identity: { sessionId }, productHandle: 'x' });
      if (status === 200) return;
      if (status !== 503) t.fail(`${status}`);
      await sleep(20);
    }
  };
  const sentAgain = () => visits.filter(({ sent }) => sent > 1).length;
  let rounds = 0;
  for (; rounds < LEAST_ROUNDS || (rounds < MOST_ROUNDS && sentAgain() < WANTED); rounds++) {
    const answers: Promise<void>[] = [];
    await meetAnew();
    process.kill(pid, 'SIGSTOP');
    const began = performance.now();
    while (performance.now() - began < SENDING_MS) {
      for (let i = 0; i < 6; i++) answers.push(visit(`r${rounds}-${answers.length}`));
      await sleep(5);
    }
    await sleep(FROZEN_MS - (performance.now() - began));
    process.kill(pid, 'SIGCONT');
    await Promise.all(answers);
  }
  t.ok(
    sentAgain() >= WANTED,
    `${sentAgain()} of ${visits.length} visits were sent again, in ${rounds} freezes`,
  );
  const counts = new Map<number, number>();
  for (const { sessionId } of visits) {
    const { count } = (await app.get(withQuery(PATH, { sessionId, productHandle: 'x' }))).json;
    counts.set(count, (counts.get(count) ?? 0) + 1);
  }
  t.same([...counts], [[1, visits.length]], 'each visit counts once');
}

t.test('a node of a cluster is frozen, with equal clocks', { timeout: 300_000 }, async (t) => {
  const cluster = await startTestCluster(t);
  await freezeAgainAndAgain(t, cluster);
});

const library = findFaketime();
const skip = library === undefined ? 'libfaketime is missing: apt-get install faketime' : false;
t.test('… with its clock behind', { timeout: 300_000, skip }, async (t) => {
  const dir = await tempDir(t);
  const clock = await createFakeClock(library as string, join(dir, 'clock'));
  const bin = await redisByClock(dir, clock);
  await clock.set(BEHIND_S);
  const cluster = await startTestCluster(t, {
    program: (node) => (node === 0 ? join(bin, 'redis-server') : undefined),
  });
  await freezeAgainAndAgain(t, cluster);
});
