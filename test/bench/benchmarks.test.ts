// What the benchmarks compute: cases and the figures made of them fit each other; the tables of docs/scaling.md are the sums
// of bench/scaling/plan.ts (UPDATE_DOCS=1 writes them); and what a slice is worth that others disturbed. And their servers:
// each has a port of its own, and the floor answers every visit.

import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import type { Bench } from '../../bench/bench.js';
import { GROUPS, type Group, type GroupName } from '../../bench/cases.js';
import { type Disturbance, machineCpu, ownSeconds, startMeter } from '../../bench/cpu.js';
import { measuredFigures } from '../../bench/figures.js';
import { tables } from '../../bench/report/tables.js';
import type { Results } from '../../bench/results.js';
import { DEPLOYMENTS } from '../../bench/scaling/cases.js';
import { carriesTable, cpuOfVisit, needsOf, planTable, SIZES } from '../../bench/scaling/plan.js';
import { type CaseResult, type GroupResult, joined, wantedCases } from '../../bench/sections/slices.js';
import { startTarget } from '../../bench/servers/start.js';
import { mostRounds, readSettings } from '../../bench/settings.js';
import { cpuUs, isDisturbed, medianOf, type Slice } from '../../bench/slice.js';
import { noiseOfMedian } from '../../bench/statistics.js';
import { COLD_PER_SLICE, Pools, WARM_UP } from '../../bench/traffic/pools.js';
import { postVisit } from '../../bench/traffic/requests.js';
import { causesOf, type Sample, type Scheduled, SENT_LATE, UNEXPLAINED } from '../../bench/waits.js';
import { checkSection } from '../harness/sections.js';

const names = Object.keys(GROUPS) as GroupName[];

/** What ONLY chooses, by group. */
function wanted(only: string): Record<string, string[]> {
  const bench = { settings: readSettings({ ONLY: only }) } as Bench;
  const chosen = names.map((group) => [group, wantedCases(bench, group).map(({ name }) => name)] as const);
  return Object.fromEntries(chosen.filter(([, cases]) => cases.length > 0));
}

t.test('ONLY is a case with what it is compared with, once, or a group with all of its cases', async (t) => {
  t.same(wanted('visit'), { visits: ['bare', 'floor', 'visit'] });
  t.same(wanted('event'), { wishlist: ['bare', 'visit', 'event'] });
  t.same(wanted('scale'), { scale: GROUPS.scale.cases.map(({ name }) => name) });
  t.same(Object.keys(wanted('')), names, 'all of them without it');
  t.same(wanted('visi'), {}, 'and a part of a name is none');
});

t.test('references are cases of their group, and no name is there twice', async (t) => {
  for (const { reference, cases } of Object.values<Group>(GROUPS)) {
    const all = cases.map(({ name }) => name);
    t.same(
      reference.filter((name) => !all.includes(name)),
      [],
    );
    t.equal(new Set(all).size, all.length);
  }
});

t.test('every figure that cases give is found in their results, and shown', async (t) => {
  const slice = { operations: 1, perSecond: 1, p50Ms: 1, p99Ms: 1, cpu: { server: 1, redis: 1 } };
  const slices = [{ ...slice, disturbance: { stolen: 0, others: 0 } } as Slice];
  const groups = Object.fromEntries(
    names.map((group): [string, GroupResult] => [
      group,
      Object.fromEntries(GROUPS[group].cases.map(({ name, title, who }) => [name, { title, who, slices }])),
    ]),
  );
  const machine = { cpu: '', cores: 2, memoryGb: 1, kernel: '', versions: {} };
  const results = { at: '', commit: '', machine, settings: readSettings({}), groups } as unknown as Results;
  const figures = measuredFigures(results).map(({ title }) => title);
  t.equal(figures.length, 17, figures.join('; '));
  const shown = tables(results);
  for (const { title } of names.flatMap((group): Group['cases'] => GROUPS[group].cases))
    t.ok(shown.includes(`| ${title} |`), title);
});

t.test('starts are joined round beside round', async (t) => {
  const one = (perCall: number, ...rounds: number[]): CaseResult => ({
    title: 'a case',
    who: 'ours',
    perCall,
    slices: rounds.map((perSecond) => ({ perSecond }) as Slice),
  });
  const { a, b } = joined([
    { a: one(10, 1, 2), b: one(10, 11, 12) },
    { a: one(20, 4, 5, 6), b: one(20, 14, 15, 16) },
  ]);
  const rounds = (result?: CaseResult) => result?.slices.map(({ perSecond }) => perSecond);
  t.same(rounds(a), [1, 2, 4, 5, 6]);
  t.same(rounds(b), [11, 12, 14, 15, 16]);
  t.equal(a?.perCall, 15);
});

t.test('there are new sessions for all rounds that may be run', async (t) => {
  const dir = t.testdir();
  for (const ROUNDS of ['1', '3', '4']) {
    const settings = { ...readSettings({ ROUNDS }), visitors: 1 };
    t.ok(mostRounds(settings) >= settings.rounds * 1.5);
    // Each is a file of some hundred megabytes.
    if (ROUNDS !== '1') continue;
    const { size } = new Pools(dir, settings).get('cold');
    t.ok(size >= WARM_UP + 2 * COLD_PER_SLICE * mostRounds(settings), ROUNDS);
  }
});

t.test("what visitors' rights cost is shown, and held against its bounds", async (t) => {
  const run = { p99Ms: 2, maxMs: 9, sent: 10, failed: 1, disturbance: { stolen: 0, others: 0 } };
  const pings = { sent: 1, p999Ms: 3, longestMs: 4 };
  const before = { runs: [run], pauseMs: 6.1, told: {}, pings };
  const meanwhile = (pauseMs: number) => ({ runs: [run, run], pauseMs, told: {}, pings });
  const beside = { seconds: 7, redisCpu: 1, before };
  const rights = {
    rate: 1_000,
    shop: { ...beside, meanwhile: meanwhile(5.1), visitors: 1_000_000, signedIn: 20_000 },
    webhooks: { count: 200, p99Ms: 20, longestMs: 1_000 },
    clickhouse: { rows: 10_000_000, profiles: 1_000, seconds: 12 },
  };
  const machine = { cpu: '', cores: 2, memoryGb: 1, kernel: '', versions: {} };
  const results = { at: '', commit: '', machine, settings: readSettings({}), rights } as unknown as Results;
  t.same(
    measuredFigures(results).map(({ reached }) => reached),
    [false, true],
    'the shop, the webhooks',
  );
  const shown = tables(results);
  t.match(shown, '| visits that were not answered well meanwhile | 2 of 20 |');
  t.match(shown, '| 1,000 profiles erased from 10,000,000 rows of ClickHouse | 12.0 s |');
});

t.test('the tables of docs/scaling.md are the sums', async (t) => {
  checkSection(t, 'docs/scaling.md', 'carries', carriesTable());
  checkSection(t, 'docs/scaling.md', 'plan', planTable());
});

t.test('a visit alone pays for its call; among many it does not', async (t) => {
  t.same(cpuOfVisit(1), { serve: 157, redis: 86.5 });
  t.same(cpuOfVisit(10), { serve: 40, redis: 14.5 });
});

t.test('ten times the visits need ten times the cores, and never fewer processes than two', async (t) => {
  const [small, large] = [
    needsOf({ visits: 1_000, visitors: 1e6 }),
    needsOf({ visits: 10_000, visitors: 1e6 }),
  ];
  for (const part of ['serve', 'redis', 'flush', 'clickhouse'] as const)
    t.ok(Math.abs(large.cores[part] / small.cores[part] - 10) < 1e-9, part);
  t.match(small, { serve: 2, flush: 2, masters: 1 });
  t.equal(large.memory, small.memory, 'memory is that of the visitors');
  t.ok(
    Math.abs(small.memory - 0.346) < 1e-9,
    'a million visitors with ten products: 121 and nine times 25 bytes',
  );
  for (const size of SIZES) {
    const { cores, serve, masters, flush } = needsOf(size);
    t.ok(
      cores.serve / serve <= 0.6 && cores.redis / masters <= 0.6 && cores.flush / flush <= 0.6,
      `${size.visits}`,
    );
  }
});

t.test('the simulation has 1, 2 and 3 masters and 1, 2 and 4 `serve`, each combination once', async (t) => {
  t.same([...new Set(DEPLOYMENTS.map(({ masters }) => masters))].sort(), [1, 2, 3]);
  t.same([...new Set(DEPLOYMENTS.map(({ workers }) => workers))].sort(), [1, 2, 4]);
  t.equal(new Set(DEPLOYMENTS.map(({ name }) => name)).size, DEPLOYMENTS.length);
  t.match(DEPLOYMENTS[0], { masters: 1, workers: 1 });
});

const BUSY_MS = 200;

function work(): void {
  const script = `for (const end = performance.now() + ${BUSY_MS}; performance.now() < end; );`;
  execFileSync(process.execPath, ['-e', script]);
}

function measured(value: number, { stolen = 0, others = 0 }: Partial<Disturbance> = {}) {
  return { value, disturbance: { stolen, others } };
}

t.test("the machine's CPU time is told by the first line of /proc/stat", async (t) => {
  const stat = 'cpu  100 25 50 800 0 25 0 0 50 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n';
  // Guest time (50) is in user time already.
  t.same(machineCpu(stat), { capacity: 10, busy: 1.75, stolen: 0 });
  t.equal(machineCpu('cpu  0 0 0 0 0 0 0 50 0 0\n').stolen, 0.5);
  t.ok(machineCpu().capacity > 0, 'and is there');
});

t.test('others are what is neither in the target nor a child of ours', async (t) => {
  const meter = startMeter({ pids: { server: [process.pid] } });
  const before = machineCpu();
  const own = ownSeconds();
  work();
  const seconds = ownSeconds() - own;
  t.ok(seconds > BUSY_MS / 4_000, `${seconds} s`);
  const { cpu, disturbance } = meter();
  const after = machineCpu();
  const all = (after.busy - before.busy) / (after.capacity - before.capacity);
  const ours = (ownSeconds() - own) / (after.capacity - before.capacity);
  t.ok(disturbance.others <= Math.max(0, all - ours) + 0.1, `${disturbance.others} of ${all}, ${ours} ours`);
  t.ok((cpu.server ?? 0) >= 0);
});

t.test('a slice is disturbed where more than 2 % was stolen or others took more than 15 %', async (t) => {
  t.notOk(isDisturbed(measured(1, { stolen: 0.02, others: 0.15 })));
  t.ok(isDisturbed(measured(1, { stolen: 0.021 })));
  t.ok(isDisturbed(measured(1, { others: 0.151 })));
});

t.test('a ratio is of slices of one round, and both must be undisturbed', async (t) => {
  const ours = [measured(10), measured(500), measured(900), measured(40)];
  const theirs = [measured(5), measured(10, { others: 0.5 }), measured(1, { stolen: 0.5 }), measured(10)];
  const ratio = medianOf([ours, theirs], (a, b) => a.value / b.value);
  t.same(ratio, { value: 3, isDisturbed: false }, 'of 2 and 4');
});

t.test('where fewer than a third are undisturbed all are taken, and that is told', async (t) => {
  const noisy = { others: 0.5 };
  const third = [measured(1), measured(2, noisy), measured(9, noisy)];
  t.same(
    medianOf([third], ({ value }) => value),
    { value: 1, isDisturbed: false },
  );
  t.same(
    medianOf([[...third, measured(10, noisy)]], ({ value }) => value),
    { value: 5.5, isDisturbed: true },
  );
});

t.test('CPU per operation is that of the parts that are asked for', async (t) => {
  const slice = { operations: 1_000, cpu: { server: 0.5, redis: 0.25, flusher: 1 } } as unknown as Slice;
  t.equal(cpuUs(slice, 'server'), 500);
  t.equal(cpuUs(slice, 'server', 'redis'), 750);
  t.equal(cpuUs(slice, 'clickhouse'), 0);
});

t.test('the noise of a comparison goes with the starts, however many slices each has', async (t) => {
  const once = noiseOfMedian([1.1, 1 / 1.1], 2);
  t.ok(Math.abs(once - (3 * 1.2533 * Math.log(1.1)) / Math.SQRT2) < 1e-9);
  t.ok(Math.abs(noiseOfMedian([1.1, 1.1, 1.1, 1 / 1.1, 1 / 1.1, 1 / 1.1], 2) - once) < 1e-9);
});

/** Looks at 0, 10, 20 … ms: what each process did in the interval that ends there. */
function looks(...intervals: Readonly<Record<string, Scheduled>>[]): Sample[] {
  const sum: Record<string, Scheduled> = { server: { ran: 0, waited: 0 }, Redis: { ran: 0, waited: 0 } };
  const samples: Sample[] = [{ at: 0, processes: { ...sum } }];
  for (const [i, interval] of intervals.entries()) {
    for (const [name, { ran, waited }] of Object.entries(interval)) {
      const before = sum[name] as Scheduled;
      sum[name] = { ran: before.ran + ran, waited: before.waited + waited };
    }
    samples.push({ at: (i + 1) * 10, processes: { ...sum } });
  }
  return samples;
}

const idle = { ran: 0, waited: 0 };

t.test('the largest part of the time is the cause', async (t) => {
  const samples = looks(
    { server: { ran: 9, waited: 0 }, Redis: idle },
    { server: idle, Redis: { ran: 1, waited: 8 } },
    { server: { ran: 1, waited: 1 }, Redis: idle },
  );
  const causes = causesOf(
    [
      { due: 1, sent: 1, answered: 9 }, // the server was at something else
      { due: 11, sent: 11, answered: 19 },
      { due: 12, sent: 12, answered: 19 },
      { due: 11, sent: 28, answered: 29 },
      { due: 21, sent: 21, answered: 29 }, // no load
    ],
    samples,
  );
  t.same(causes, { 'server worked': 1, 'Redis waited for a core': 2, [SENT_LATE]: 1, [UNEXPLAINED]: 1 });
});

t.test('no more than the time of the request is blamed, and nothing that has ended', async (t) => {
  const samples = looks({ server: { ran: 0, waited: 10 }, Redis: idle }, { server: idle, Redis: idle });
  t.same(causesOf([{ due: 8, sent: 8, answered: 10 }], samples), { 'server waited for a core': 1 });
  t.same(causesOf([{ due: 11, sent: 11, answered: 15 }], samples), { [UNEXPLAINED]: 1 });
  const ended = looks({ server: { ran: Number.NaN, waited: Number.NaN }, Redis: idle });
  for (const none of [ended, []])
    t.same(causesOf([{ due: 1, sent: 1, answered: 9 }], none), { [UNEXPLAINED]: 1 });
});

const run = promisify(execFile);
const PROCESSES = 4;
const PORTS = 600;

t.test('a free port is given to one of the processes that look for one at the same time', async (t) => {
  const module = new URL('../../bench/servers/ports.js', import.meta.url).href;
  // Each keeps its process until all have drawn, as test files do with their servers.
  const draw = `
    const { freePort } = await import(${JSON.stringify(module)});
    console.log(JSON.stringify(await Promise.all(Array.from({ length: ${PORTS} }, freePort))));
    await new Promise((done) => process.stdin.once('end', done).resume());`;
  const draws = Array.from({ length: PROCESSES }, () =>
    run(process.execPath, ['--input-type=module', '--eval', draw]),
  );
  await Promise.all(draws.map(({ child }) => new Promise((done) => child.stdout?.once('data', done))));
  for (const { child } of draws) child.stdin?.end();

  const given = (await Promise.all(draws)).flatMap(({ stdout }) => JSON.parse(stdout) as number[]);
  t.equal(given.length, PROCESSES * PORTS);
  t.equal(new Set(given).size, given.length, 'each port once');
});

const PAIRS = 200;
/** Microseconds that the second of a pair comes later, at most: about as long as a visit takes. */
const LATEST_US = 400;
const HANG_MS = 30_000;

t.test('the floor answers both of two visits that come shortly after each other', async (t) => {
  const { port, stop } = await startTarget({ server: 'floor', dir: join(t.testdir(), 'floor') });
  t.teardown(stop);
  const sockets = await Promise.all(
    [0, 1].map(async () => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      t.teardown(() => socket.destroy());
      await once(socket, 'connect');
      return socket;
    }),
  );
  const request = postVisit({ sessionId: 's-1', productHandle: 'red-shoe' });
  let answered = 0;
  for (let pair = 0; pair < PAIRS; pair++) {
    const answers = sockets.map((socket) => once(socket, 'data').then(() => answered++));
    const due = performance.now() + ((pair % 50) * LATEST_US) / 50_000;
    for (const [n, socket] of sockets.entries()) {
      while (n > 0 && performance.now() < due);
      socket.write(request);
    }
    await Promise.race([Promise.all(answers), sleep(HANG_MS, undefined, { ref: false })]);
    if (answered < 2 * (pair + 1)) break;
  }
  t.equal(answered, 2 * PAIRS);
});
