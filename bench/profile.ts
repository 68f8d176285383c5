// `make bench-profile CASE=visit`: where the time of `wishmeter serve` goes under load. Node's sampling profiler,
// only the samples of the load, by function and by module; the .cpuprofile stays in bench/results/ for DevTools.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { type Bench, createBench } from './bench.js';
import { type Case, GROUPS } from './cases.js';
import { cpuBetween, cpuOf, waitedSeconds } from './cpu.js';
import { replay } from './load/wrk.js';
import { RESULTS, runProgram } from './program.js';
import { type CpuProfile, selfTimes, type Window } from './report/self-times.js';
import { warmUp } from './sections/slices.js';
import { startTarget } from './servers/start.js';
import type { Target } from './servers/target.js';
import { readSettings } from './settings.js';

const SECONDS = 6;
const INTERVAL_US = 250;

await runProgram('bench-profile', async (dir) => {
  const name = process.env.CASE || 'visit';
  const ours = Object.values(GROUPS)
    .flatMap(({ cases }): readonly Case[] => cases)
    .filter(({ server }) => server === 'wishmeter');
  const one = ours.find((candidate) => candidate.name === name);
  if (!one) throw new Error(`CASE must be one of ${ours.map((known) => known.name).join(', ')}`);
  const bench = createBench(dir, { ...readSettings(process.env), seconds: SECONDS }, () => {});
  const profiles = join(dir, 'profiles');
  const nodeArgs = ['--cpu-prof', `--cpu-prof-dir=${profiles}`, `--cpu-prof-interval=${INTERVAL_US}`];
  const { window, perSecond, redisUs, waited } = await runUnderProfiler(bench, one, nodeArgs);

  mkdirSync(RESULTS, { recursive: true });
  const [file = ''] = readdirSync(profiles);
  const text = readFileSync(join(profiles, file), 'utf8');
  writeFileSync(join(RESULTS, `${name}.cpuprofile`), text);
  const report =
    `${one.title}: ${Math.round(perSecond)} requests/s under the profiler; ` +
    `${((window.cpuSeconds / window.requests) * 1e6).toFixed(1)} µs of the server's CPU a request, ` +
    `${redisUs.toFixed(1)} µs of Redis's. It waited for its core ${(waited * 100).toFixed(0)} % of the time ` +
    `(above some per cent the machine is busy with other things, and self times are too long).\n\n${selfTimes(JSON.parse(text) as CpuProfile, window)}`;
  writeFileSync(join(RESULTS, `profile-${name}.md`), report);
  process.stdout.write(report);
  return 0;
});

/** The profile is written when the server ends. */
async function runUnderProfiler(
  bench: Bench,
  one: Case,
  nodeArgs: readonly string[],
): Promise<{ window: Window; perSecond: number; redisUs: number; waited: number }> {
  const target = await startTarget({ ...one, dir: bench.folder(), nodeArgs });
  try {
    pin(target);
    const sent = await warmUp(bench, one, target);
    const pool = bench.pools.get(one.load);
    const first = sent.find((earlier) => earlier.pool === pool)?.count ?? 0;
    const before = cpuOf(target);
    const [pid = 0] = target.pids.server ?? [];
    const waitedBefore = waitedSeconds(pid);
    const from = clockUs();
    const { answers, perSecond } = await replay({ ...one, port: target.port, pool, first, seconds: SECONDS });
    const to = clockUs();
    const { server = 0, redis = 0 } = cpuBetween(before, cpuOf(target));
    const window = { from, to, requests: answers, cpuSeconds: server };
    const waited = ((waitedSeconds(pid) - waitedBefore) * 1e6) / (to - from);
    return { window, perSecond, redisUs: (redis / answers) * 1e6, waited };
  } finally {
    await target.stop();
  }
}

/**
 * Pins the server to a core of its own and all other processes to the others. The profiler samples wall-clock time: a
 * system call that wakes a process which then takes the server's core would seem slow.
 */
function pin({ pids: { server = [], ...others } }: Target): void {
  const last = cpus().length - 1;
  if (last === 0) return;
  const to = (cores: string, pid: number) => execFileSync('taskset', ['-acp', cores, String(pid)]);
  for (const pid of server) to('0', pid);
  for (const pid of [process.pid, ...Object.values(others).flat()]) to(`1-${last}`, pid);
}

/** Microseconds of the clock that V8's profiler has, too. */
function clockUs(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}
