// Repeats background work, one run at a time.

/** The first run is now. @param work never rejects @returns a function that ends it after the current run */
export function repeat(
  everyMs: number,
  work: (signal: AbortSignal) => Promise<unknown>,
): () => Promise<void> {
  const closing = new AbortController();
  let running: Promise<unknown> | undefined;
  const run = () => {
    running ??= work(closing.signal).finally(() => {
      running = undefined;
    });
  };
  run();
  const timer = setInterval(run, everyMs);
  timer.unref();
  return async () => {
    clearInterval(timer);
    closing.abort();
    await running;
  };
}
