// Runs shutdown steps in order. A step that hangs or fails doesn't prevent the next one.

export interface ShutdownStep {
  readonly name: string;
  readonly withinMs: number;
  readonly run: () => Promise<void>;
}

export interface ShutdownOutcome {
  readonly name: string;
  readonly result: 'done' | 'failed' | 'timed out';
  readonly ms: number;
  readonly error?: unknown;
}

export interface Clock {
  now(): number;
  after(ms: number, then: () => void): () => void;
}

const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
};

/** Never rejects. */
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
    // `run` is called in `then`, so that its synchronous errors reject, too.
    Promise.resolve()
      .then(run)
      .then(
        () => settle({ result: 'done' }),
        (error: unknown) => settle({ result: 'failed', error }),
      );
  });
}
