// Runs the steps of a shutdown in order, each with a deadline: a step that hangs or fails does not stop the next ones.
// Left out on purpose: concurrent steps. A step may stop several things itself.

export interface ShutdownStep {
  readonly name: string;
  /** Milliseconds after which the next step begins. */
  readonly withinMs: number;
  readonly run: () => Promise<void>;
}

/** A step that timed out may still run; it is not awaited. */
export interface ShutdownOutcome {
  readonly name: string;
  readonly result: 'done' | 'failed' | 'timed out';
  readonly ms: number;
  /** Of a failed step. */
  readonly error?: unknown;
}

/** For tests. */
export interface Clock {
  /** Milliseconds, monotonic. */
  now(): number;
  /** Calls `then` after `ms` milliseconds. @returns a function that cancels it */
  after(ms: number, then: () => void): () => void;
}

const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
};

/** Runs every step, in order. Never rejects. */
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
    // Catches errors that `run` throws synchronously, too.
    Promise.resolve()
      .then(run)
      .then(
        () => settle({ result: 'done' }),
        (error: unknown) => settle({ result: 'failed', error }),
      );
  });
}
