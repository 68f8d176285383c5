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

/** Never rejects. */
export async function shutdown(steps: readonly ShutdownStep[]): Promise<ShutdownOutcome[]> {
  const outcomes: ShutdownOutcome[] = [];
  for (const step of steps) outcomes.push(await runStep(step));
  return outcomes;
}

function runStep({ name, withinMs, run }: ShutdownStep): Promise<ShutdownOutcome> {
  const start = performance.now();
  return new Promise((resolve) => {
    const timer = setTimeout(() => settle({ result: 'timed out' }), withinMs);
    const settle = (how: Pick<ShutdownOutcome, 'result' | 'error'>) => {
      clearTimeout(timer);
      resolve({ name, ms: performance.now() - start, ...how });
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
