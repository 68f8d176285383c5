// One round of a case: a fresh server on a fresh Redis, its answers proved right, warmed up, timed, and what it
// holds proved to be what it acknowledged.

import type { Bench } from '../bench.js';
import type { Case } from '../cases.js';
import { type CpuByPart, cpuBetween, cpuOf } from '../cpu.js';
import { type Answered, replay } from '../load/wrk.js';
import type { Sent } from '../proofs/proof.js';
import { PROOFS } from '../proofs/proofs.js';
import { startTarget } from '../servers/start.js';
import type { Target } from '../servers/target.js';
import { WARM_UP } from '../traffic/pools.js';

export interface Round extends Answered {
  /** Seconds of CPU during the load. */
  readonly cpu: CpuByPart;
  /** ours: operations that shared one call to Redis, on average. */
  readonly perCall: number | undefined;
}

/** @param root the tree that `wishmeter` is run from, where it may be another than this one: looked at from outside only */
export async function runRound(bench: Bench, one: Case, root?: URL): Promise<Round> {
  const target = await startTarget({ ...one, dir: bench.folder(), ...(root ? { root } : {}) });
  try {
    const proof = PROOFS[one.proof];
    const left = await proof.before(target);
    const sent = await warmUp(bench, one, target);
    const { round, sent: timed } = await measure(bench, one, target, sent);
    await proof.outside(target, [...sent, timed], left);
    if (root === undefined) await proof.inside(target, [...sent, timed], left);
    return round;
  } catch (error) {
    throw new Error(`${one.name}: ${(error as Error).message}`, { cause: error });
  } finally {
    await target.stop();
  }
}

/** Replays what comes before the timing. */
export async function warmUp({ pools }: Bench, one: Case, { port }: Target): Promise<Sent[]> {
  const sent: Sent[] = [];
  for (const [share, name] of one.before) {
    const pool = pools.get(name);
    const requests = share === 'all' ? pool.size : Math.min(WARM_UP, pool.size);
    const { answers } = await replay({ port, pool, requests });
    sent.push({ pool, first: 0, count: answers });
  }
  return sent;
}

async function measure(
  { pools, settings }: Bench,
  one: Case,
  target: Target,
  sent: readonly Sent[],
): Promise<{ round: Round; sent: Sent }> {
  const pool = pools.get(one.load);
  // Where the pool has been begun it is gone on with: a new session is new once.
  const begun = sent.find((earlier) => earlier.pool === pool)?.count ?? 0;
  const callsBefore = await readCalls(one, target);
  const before = cpuOf(target);
  const answered = await replay({ port: target.port, pool, first: begun, seconds: settings.seconds });
  const cpu = cpuBetween(before, cpuOf(target));
  const calls = await readCalls(one, target);
  const perCall = (calls.operations - callsBefore.operations) / (calls.calls - callsBefore.calls);
  if (one.name.includes('cold') && begun + answered.answers > pool.size)
    throw new Error('more answers than new sessions');
  return {
    round: { ...answered, cpu, perCall: perCall || undefined },
    sent: { pool, first: begun, count: answered.answers },
  };
}

/** What the server's own metrics tell of its batches; of one worker, where there are several. */
async function readCalls({ server }: Case, { port }: Target): Promise<{ operations: number; calls: number }> {
  if (server !== 'wishmeter') return { operations: 0, calls: 0 };
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const sum = (name: string) => {
    const lines = text.matchAll(new RegExp(`^wishmeter_batch_operations_${name}\\{.*\\} (\\S+)$`, 'gm'));
    return [...lines].reduce((total, [, value]) => total + Number(value), 0);
  };
  return { operations: sum('sum'), calls: sum('count') };
}
