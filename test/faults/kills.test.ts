// The service in processes, under load, while parts of it fail: what was acknowledged is there, once, and nothing else is.
// FAULTS=full: every fault of faults.ts, ten times. Random numbers come from SEED, which the titles show.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createRandom } from '../../bench/demo/random.js';
import { until } from '../harness/until.js';
import { openTargets, SERVER_FAULTS } from './faults.js';
import type { Load } from './load.js';
import { FULL, MOST_PATIENT_MS, SEED, signal } from './service.js';

/** Kills of the flusher and of ClickHouse alone: flusher.test.ts and clickhouse-answers.test.ts, at exact points. */
const SHORT = [
  'kill -9 a worker',
  'kill -9 Redis',
  'kill -9 everything',
  'SCRIPT FLUSH',
  'maxmemory reached',
];
const TIMES = FULL ? 10 : 1;

const targets = await openTargets(t, createRandom(SEED), undefined, { REDIS_TIMEOUT_MS: MOST_PATIENT_MS });
const { service, random } = targets;

const loads: Load[] = [];
/** @param name begins every id of the load, so that what is lost tells its test */
function startLoad(name: string): Load {
  const load = service.load({ seed: SEED + loads.length, name });
  loads.push(load);
  return load;
}

const faults = SERVER_FAULTS.filter(({ name }) => FULL || SHORT.includes(name));
t.ok(faults.length >= SHORT.length, 'each of the short form is there');
for (const fault of faults) {
  const title = `the service goes on after ${TIMES} times ${fault.name}, SEED=${SEED}`;
  t.test(title, { timeout: 900_000 }, async () => {
    const load = startLoad(`f${loads.length}`);
    for (let i = 0; i < TIMES; i++) {
      await load.untilServed(50 + Math.floor(random.next() * 100));
      const undo = await fault.begin(targets);
      await sleep(random.next() * Math.min(fault.ms, FULL ? fault.ms : 500));
      await undo();
      await load.untilServed(50);
    }
    await load.stop();
  });
}

t.test('a flood while Redis is frozen gets 503, is not applied late, and is served afterwards', async (t) => {
  const visit = async (i: number, headers: object = {}) => {
    const answer = await fetch(`${service.url}/product/visit?count=true`, {
      method: 'POST',
      headers: { 'x-api-key': service.key, ...headers },
      body: JSON.stringify({ identity: { sessionId: `flood-${i}` }, productHandle: 'x' }),
    });
    const { count } = (await answer.json()) as { count?: number };
    return { status: answer.status, retryAfter: answer.headers.get('retry-after') ?? '', count };
  };
  const flood = Array.from({ length: 150 }, (_, i) => i);
  const load = startLoad('fr');
  await load.untilServed(50);
  signal(service.redis, 'SIGSTOP');
  for (const answer of await Promise.all(flood.map((i) => visit(i))))
    if (answer.status !== 503 || !/^[1-9]\d*$/.test(answer.retryAfter) || answer.count !== undefined)
      t.fail(JSON.stringify(answer));
  signal(service.redis, 'SIGCONT');
  await load.untilServed(50);
  await load.stop();
  const visitAgain = async (i: number) => {
    const { count } = await until('a visit of the flood is counted', async () => {
      const answer = await visit(i, { 'idempotency-key': `flood-${i}` });
      return answer.status === 200 && answer;
    });
    if (count !== 1) t.fail(`visit ${i} got 503 and was applied late: ${count} are counted`);
  };
  await Promise.all(flood.map(visitAgain));
});

t.test('after all of this everything that was acknowledged is there, once', async (t) => {
  for (const load of loads) t.comment(String(load));
  await service.exact(t, ...loads);
});
