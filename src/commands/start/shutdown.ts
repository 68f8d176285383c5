// Ending in order: one step after the other, each under a deadline of its own, so that a step that
// hangs or fails never keeps those after it from running. Knows nothing of processes or servers and
// takes its clock from outside; that is what lets a test pin the order.
//
// Left out on purpose: steps at the same time. What may stop together is one step (Promise.all).

/** One thing to end. */
export interface ShutdownStep {
  readonly name: string;
  /** Milliseconds that it may take; past them the next step begins. */
  readonly withinMs: number;
  readonly run: () => Promise<void>;
}

/** How one step went. `timed out` steps may still be at it; they are not awaited. */
export interface ShutdownOutcome {
  readonly name: string;
  readonly result: 'done' | 'failed' | 'timed out';
  readonly ms: number;
  /** What a failed step threw. */
  readonly error?: unknown;
}

/** The passing of time, as far as a shutdown cares. */
export interface Clock {
  /** Milliseconds since whenever. */
  now(): number;
  /** Calls `then` once after `ms` milliseconds unless cancelled by the function that it returns. */
  after(ms: number, then: () => void): () => void;
}

const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
};

/** Runs every step, in order. Never rejects: what went wrong is in the outcomes, one per step. */
export async function shutdown(
  steps: readonly ShutdownStep[],
  clock: Clock = SYSTEM_CLOCK,
): Promise<ShutdownOutcome[]> {
  const outcomes: ShutdownOutcome[] = [];
  for (const step of steps) outcomes.push(await runStep(step, clock));
  return outcomes;
}

function runStep({ name, withinMs, run }: ShutdownStep, clock: Clock): Promise<ShutdownOutcome> {
  const start = clock.now();
  return new Promise((resolve) => {
    const cancel = clock.after(withinMs, () => settle({ result: 'timed out' }));
    const settle = (how: Pick<ShutdownOutcome, 'result' | 'error'>) => {
      cancel();
      resolve({ name, ms: clock.now() - start, ...how });
    };
    // A step that throws before its first await is a step that failed, too.
    Promise.resolve()
      .then(run)
      .then(
        () => settle({ result: 'done' }),
        (error: unknown) => settle({ result: 'failed', error }),
      );
  });
}
