// Redis frozen and Redis stopped for long, under load: every request is answered within a second, memory stays as it
// is, the service is back within two seconds of Redis, and what got 503 is not applied late. Times are for a quiet
// machine; kills.test.ts and test/http/unavailable.test.ts ask the same without them.

import { readFile } from 'node:fs/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { median } from '../../bench/statistics.js';
import { FULL, KEY, openService, type Part, programPart, type Service, signal } from './service.js';

const AWAY_MS = FULL ? 60_000 : 6_000;
/** Beyond what a heap grows and shrinks by between two collections. */
const GROWTH_MB = 64;
const AT_ONCE_MS = 100;

const service = await openService({ fsync: 'always' });
t.teardown(() => service.stop());

async function megabytes({ pid }: Part): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s*(\d+) kB/.exec(status)?.[1]) / 1024;
}

const visit = (sessionId: string) =>
  fetch(`${service.url}/product/visit?count=true`, {
    method: 'POST',
    headers: { 'x-api-key': KEY, 'content-type': 'application/json' },
    body: JSON.stringify({ identity: { sessionId }, productHandle: 'x' }),
  });

async function expectNoHang(
  t: Test,
  { away, back, round }: { away: () => Promise<void>; back: () => Promise<void>; round: number },
): Promise<void> {
  const [worker] = service.workers as [Part];
  const load = service.load({ seed: round, name: `a${round}`, connections: 40, restMs: 2 });
  await load.untilServed(100);
  const before = await megabytes(worker);

  await away();
  load.longestMs = 0;
  const lag = monitorEventLoopDelay({ resolution: 5 });
  lag.enable();
  await sleep(600);
  const gone = load.seconds.length;
  /** Redis is not asked for these: what they take is this machine's share of what the others take. */
  const pings: number[] = [];
  const isOver = new AbortController();
  const pinging = (async () => {
    while (!isOver.signal.aborted) {
      const began = performance.now();
      await (await fetch(`${service.url}/healthz`)).text();
      pings.push(performance.now() - began);
      await sleep(20);
    }
  })();
  const waits: number[] = [];
  const end = performance.now() + AWAY_MS;
  while (performance.now() < end) {
    const began = performance.now();
    const { status } = await visit(`late${round}`);
    waits.push(performance.now() - began);
    if (status !== 503) t.fail(`${status} while Redis is away`);
    await sleep(50);
  }
  isOver.abort();
  await pinging;
  const refused = load.seconds.slice(gone).reduce((sum, second) => sum + second.refused, 0);
  const grown = (await megabytes(worker)) - before;
  const longest = Math.round(load.longestMs);
  const late = Math.round(Math.max(lag.max / 1e6, ...pings));
  t.ok(
    longest - late < 1_000,
    `the longest of ${refused} refusals took ${longest} ms, ${late} at most not for Redis`,
  );
  const [wait, ping] = [median(waits), median(pings)];
  t.ok(
    wait - ping < AT_ONCE_MS,
    `once it is known to be away, 503 comes at once: median ${wait.toFixed(1)} ms, of /healthz ${ping.toFixed(1)} ms`,
  );
  t.ok(grown < GROWTH_MB, `the worker grew by ${Math.round(grown)} MB`);

  await back();
  const began = performance.now();
  while ((await visit(`back${round}`)).status !== 200) await sleep(5);
  t.comment(`served again ${Math.round(performance.now() - began)} ms after Redis`);
  await sleep(500);
  await load.stop();
  t.comment(String(load));
  const answer = (await (await visit(`late${round}`)).json()) as { count: number };
  t.equal(answer.count, 1, 'no visit that got 503 was applied late');
  await service.exact(t, ...loads, load);
  loads.push(load);
}

const loads: ReturnType<Service['load']>[] = [];

t.test('Redis is frozen', { timeout: 300_000 }, (t) =>
  expectNoHang(t, {
    round: 1,
    away: async () => signal(service.redis, 'SIGSTOP'),
    back: async () => signal(service.redis, 'SIGCONT'),
  }),
);

t.test('Redis is stopped', { timeout: 300_000 }, (t) =>
  expectNoHang(t, { round: 2, away: () => service.redis.stop(), back: () => service.redis.start() }),
);

t.test('a worker that is started while Redis is frozen waits for it, some seconds', async (t) => {
  const worker = programPart('serve', 'serve', {
    REDIS_URL: service.redisUrl,
    HOST: '127.0.0.1',
    PORT: '0',
  });
  t.teardown(() => worker.stop());
  signal(service.redis, 'SIGSTOP');
  const thawed = sleep(2_000).then(() => signal(service.redis, 'SIGCONT'));
  await worker.start();
  await thawed;
});
