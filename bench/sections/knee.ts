// The knee: the highest steady rate of events at which everything on this machine (server, Redis, flusher, ClickHouse and
// the load generator) still keeps up, and which part falls behind first above it.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench } from '../bench.js';
import { event } from '../cases.js';
import { type CpuByPart, cpuBetween, cpuOf } from '../cpu.js';
import { runSteady, type SteadyResult } from '../load/steady.js';
import { pendingEvents, untilDrained } from '../proofs/events.js';
import type { Sent } from '../proofs/proof.js';
import { PROOFS } from '../proofs/proofs.js';
import { startTarget } from '../servers/start.js';
import type { Part, Target } from '../servers/target.js';
import { warmUp } from './slices.js';

/** A server that answers this late has a queue that grows. */
const LATE_MS = 500;
/** Of the rate: what may be added to the backlog per second and still be chance. */
const GROWTH = 0.03;
const SETTLE_S = 3;
const POLL_MS = 50;

/** What happened at one rate. */
interface Step {
  /** Events per second. */
  readonly rate: number;
  readonly holds: boolean;
  /** Why it does not hold. */
  readonly gaveWay: string | undefined;
  readonly p99Ms: number;
  /** Least events that waited in Redis, at the beginning and at the end: an interval's worth is usual. */
  readonly backlog: readonly [number, number];
  /** Cores that each took, the load's generator too. */
  readonly cores: Readonly<Partial<Record<Part | 'load', number>>>;
}

export interface Knee {
  /** Events per second. */
  readonly rate: number;
  /** The lowest rate that did not hold. */
  readonly above: Step | undefined;
  readonly steps: readonly Step[];
}

/** @param peak events per second that a closed loop got; the knee is searched from there */
export async function findKnee(bench: Bench, peak: number): Promise<Knee> {
  const { quick } = bench.settings;
  const target = await startTarget({ ...event, dir: bench.folder() });
  try {
    const left = await PROOFS.events.before(target);
    const sent: Sent[] = await warmUp(bench, event, target);
    const steps: Step[] = [];
    const attempt = async (rate: number): Promise<boolean> => {
      const step = await tryRate(bench, target, rate, quick ? 4 : 9, sent);
      steps.push(step);
      const verdict = step.holds ? 'holds' : step.gaveWay;
      bench.say(
        `${rate} events/s: ${verdict}, p99 ${step.p99Ms.toFixed(1)} ms, backlog ${step.backlog.join(' → ')}`,
      );
      return step.holds;
    };
    let [holds, fails] = [0, Math.round(peak * 1.1)];
    let rate = Math.round(peak * 0.6);
    for (let n = 0; n < (quick ? 3 : 7) && fails - holds > 0.03 * fails; n++) {
      if (await attempt(rate)) holds = rate;
      else fails = rate;
      rate = Math.round((holds + fails) / 2);
    }
    await PROOFS.events.outside(target, sent, left);
    await PROOFS.events.inside(target, sent, left);
    const above = steps.filter((step) => !step.holds).sort((a, b) => a.rate - b.rate)[0];
    return { rate: holds, above, steps };
  } finally {
    await target.stop();
  }
}

async function tryRate(
  bench: Bench,
  target: Target,
  rate: number,
  seconds: number,
  sent: Sent[],
): Promise<Step> {
  const pool = bench.pools.get('events');
  const running = runSteady({ port: target.port, pool, rate, seconds, settleSeconds: SETTLE_S });
  let over = false;
  running.finally(() => {
    over = true;
  });
  await sleep(SETTLE_S * 1_000);
  const before = cpuOf(target);
  const began = performance.now();
  const looks: { at: number; events: number }[] = [];
  while (performance.now() - began < seconds * 1_000 && !over) {
    looks.push({ at: performance.now() - began, events: await pendingEvents(target) });
    await sleep(POLL_MS);
  }
  const took = (performance.now() - began) / 1_000;
  const cpu = cpuBetween(before, cpuOf(target));
  const result = await running;
  sent.push({ pool, count: result.answered, unsure: result.failed });
  await untilDrained(target);

  const half = (seconds * 1_000) / 2;
  const least = (list: typeof looks) => Math.min(...list.map(({ events }) => events));
  const backlog = [
    least(looks.filter(({ at }) => at < half)),
    least(looks.filter(({ at }) => at >= half)),
  ] as const;
  const gaveWay = reasonOf(result, (backlog[1] - backlog[0]) / (seconds / 2), rate);
  return {
    rate,
    holds: gaveWay === undefined,
    gaveWay,
    p99Ms: result.p99Ms,
    backlog,
    cores: coresOf(cpu, took, result.cpuSeconds / (seconds + SETTLE_S)),
  };
}

function reasonOf({ failed, p99Ms }: SteadyResult, growth: number, rate: number): string | undefined {
  if (failed > 0) return `${failed} events were refused`;
  if (p99Ms > LATE_MS) return 'the server falls behind';
  if (growth > GROWTH * rate) return 'the flusher falls behind';
  return undefined;
}

function coresOf(cpu: CpuByPart, seconds: number, load: number): Step['cores'] {
  const parts = Object.entries(cpu).map(([part, used]) => [part, used / seconds]);
  return { ...Object.fromEntries(parts), load };
}
