// `make soak MINUTES=n SEED=s`: a shop's traffic and random faults of all kinds, and at the end the reckoning:
// nothing lost, nothing twice. Exit code 1 where that is not so. Draws bench/results/soak-<seed>.svg, which tells
// the same.

import { mkdir, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../../bench/demo/random.js';
import { type Proxy as Line, startProxy } from '../../harness/proxy.js';
import { type ClickHouseProxy, startClickHouseProxy } from '../clickhouse-proxy.js';
import { reconcile } from '../reconcile.js';
import { openStage } from '../stage.js';
import { FAULTS, type Fault } from './faults.js';
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
const say = (text: string) => process.stdout.write(`${text}\n`);
say(`soak of ${minutes} min, SEED=${seed}`);

const closers: (() => Promise<void>)[] = [];
const scope = { teardown: (close: () => Promise<void>) => void closers.push(close) };
let redisLine: Line | undefined;
let clickhouseLine: ClickHouseProxy | undefined;
const stage = await openStage({
  workers: 2,
  fsync: 'always',
  via: {
    async redis(url) {
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
const scene = {
  stage,
  redisLine: redisLine as unknown as Line,
  clickhouseLine: clickhouseLine as unknown as ClickHouseProxy,
  random,
};

const began = performance.now();
const seconds = () => (performance.now() - began) / 1000;
const load = stage.load({ seed, connections: 24, restMs: 10 });
const sampler = startSampler(stage, load);
const spans: Span[] = [];
const times = new Map<string, number>();
let summary = [`soak of ${minutes} min, SEED=${seed}`, 'It did not come to its end.'];
let exitCode = 1;

async function happen(fault: Fault): Promise<void> {
  const from = seconds();
  await fault.run(scene);
  spans.push({ name: fault.name, from, to: seconds() });
  times.set(fault.name, (times.get(fault.name) ?? 0) + 1);
}

try {
  await load.untilServed();
  while (seconds() < minutes * 60) {
    await sleep(500 + random.next() * 3_000);
    // Two faults at once are of different places: what one has stopped, the other could not freeze.
    const one = random.pick(FAULTS);
    const others = FAULTS.filter(({ place }) => place !== one.place && place !== 'everything');
    const isDouble = one.place !== 'everything' && random.chance(TWICE);
    await Promise.all((isDouble ? [one, random.pick(others)] : [one]).map(happen));
    await load.untilServed();
  }
  await sleep(2_000);
  await load.stop();
  sampler.stop();
  const reckoning = await reconcile([load], stage);
  summary = summarize({ minutes, seed, times, load, reckoning });
  say(['', ...summary, ''].join('\n'));
  exitCode = load.faults.length + reckoning.wrong.length === 0 ? 0 : 1;
} finally {
  sampler.stop();
  await mkdir(RESULTS, { recursive: true });
  const file = new URL(`soak-${seed}.svg`, RESULTS);
  await writeFile(file, plot(summary, sampler.samples, spans));
  say(`Drawn: bench/results/soak-${seed}.svg`);
  await load.stop();
  await stage.stop();
  for (const close of closers) await close();
}
process.exit(exitCode);
