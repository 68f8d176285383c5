// `make soak MINUTES=n SEED=s CLUSTER=1`: a shop's traffic, people who log in, and random faults of all kinds; at the
// end the check: nothing lost, nothing twice, no visitor locked out. Exit code 1 where that is not so. Draws
// bench/results/soak-<seed>.svg, which tells the same. CLUSTER=1: three masters with a replica each, which take over
// from each other.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../../bench/demo/random.js';
import { type Proxy as Line, startProxy } from '../../harness/proxy.js';
import { checkLogins, findLockedOut } from '../check-logins.js';
import { type ClickHouseProxy, startClickHouseProxy } from '../clickhouse-proxy.js';
import { type Identity, LoginTraffic } from '../logins.js';
import { reconcile } from '../reconcile.js';
import { openService } from '../service.js';
import { soakCluster } from './cluster.js';
import { CLUSTER_FAULTS, type Fault, SERVER_FAULTS } from './faults.js';
import { plot, type Span } from './plot.js';
import { startSampler } from './sampler.js';
import { summarize } from './summary.js';

const RESULTS = new URL('../../../../bench/results/', import.meta.url);
/** Two things at once go wrong this often. */
const TWICE = 0.25;

const minutes = Number(process.env.MINUTES || 10);
const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
if (!(minutes > 0) || !Number.isInteger(seed)) {
  process.stderr.write('MINUTES must be a number above 0, SEED a whole number.\n');
  process.exit(2);
}
const isCluster = Boolean(process.env.CLUSTER);
const title = `soak of ${minutes} min${isCluster ? ' on a cluster' : ''}, SEED=${seed}`;
const say = (text: string) => process.stdout.write(`${text}\n`);
say(title);

const closers: (() => Promise<void>)[] = [];
const scope = { teardown: (close: () => Promise<void>) => void closers.push(close) };
let redisLine: Line | undefined;
let clickhouseLine: ClickHouseProxy | undefined;
const clusterDir = await mkdtemp(join(tmpdir(), 'wm-soak-'));
const cluster = isCluster ? await soakCluster(clusterDir) : undefined;
const service = await openService({
  workers: 2,
  fsync: 'always',
  // Without it a master that is killed takes along what its replica has not got yet.
  ...(cluster === undefined ? {} : { redis: cluster, env: { REDIS_REPLICAS: '1' } }),
  via: {
    async redis(url) {
      if (isCluster) return url; // its nodes tell clients where they are
      redisLine = await startProxy(scope, url);
      return redisLine.url;
    },
    async clickhouse(url) {
      clickhouseLine = await startClickHouseProxy(scope, url);
      return clickhouseLine.url;
    },
  },
});
const random = createRandom(seed);
const targets = {
  service,
  redisLine: redisLine as Line | undefined,
  cluster,
  clickhouseLine: clickhouseLine as unknown as ClickHouseProxy,
  random,
};

const began = performance.now();
const seconds = () => (performance.now() - began) / 1000;
const load = service.load({ seed, connections: 24, restMs: 10 });
const logins = new LoginTraffic({ caller: load.caller, seed, groups: 12, restMs: 10 });
const faults = isCluster ? CLUSTER_FAULTS : SERVER_FAULTS;
const sampler = startSampler(service, load);
const spans: Span[] = [];
const times = new Map<string, number>();
let summary = [title, 'It did not come to its end.'];
let exitCode = 1;

async function happen(fault: Fault): Promise<void> {
  const from = seconds();
  await fault.run(targets);
  spans.push({ name: fault.name, from, to: seconds() });
  times.set(fault.name, (times.get(fault.name) ?? 0) + 1);
}

try {
  await load.untilServed();
  while (seconds() < minutes * 60) {
    await sleep(500 + random.next() * 3_000);
    // Two faults at once are of different places: what one has stopped, the other could not freeze.
    const one = random.pick(faults);
    const others = faults.filter(({ place }) => place !== one.place && place !== 'everything');
    const isDouble = one.place !== 'everything' && random.chance(TWICE);
    await Promise.all((isDouble ? [one, random.pick(others)] : [one]).map(happen));
    await load.untilServed();
  }
  await sleep(2_000);
  await logins.stop();
  await load.stop();
  sampler.stop();
  const guests = [...new Set(Array.from(load.visits.keys(), (key) => key.split(' ')[0] as string))];
  const everybody: Identity[] = guests.map((sessionId) => ({ sessionId }));
  for (const { identities } of logins.profiles) everybody.push(...identities);
  const lockedOut = await findLockedOut(everybody, service);
  const reckoning = await reconcile([load, logins], service);
  const loginsReport = await checkLogins(logins.profiles, service);
  summary = summarize({ title, times, load, reckoning, logins, loginsReport, lockedOut });
  say(['', ...summary, ''].join('\n'));
  const wrong = [load.faults, reckoning.wrong, loginsReport.wrong, lockedOut].flat();
  exitCode = wrong.length === 0 ? 0 : 1;
} finally {
  sampler.stop();
  await mkdir(RESULTS, { recursive: true });
  const file = new URL(`soak-${seed}.svg`, RESULTS);
  await writeFile(file, plot(summary, sampler.samples, spans));
  say(`Drawn: bench/results/soak-${seed}.svg`);
  await logins.stop();
  await load.stop();
  await service.stop();
  await rm(clusterDir, { recursive: true, force: true });
  for (const close of closers) await close();
}
process.exit(exitCode);
