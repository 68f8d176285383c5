// Figures for Prometheus take milliseconds to make, `serve` asks Redis for them, and where METRICS_TOKEN is not set
// anyone may ask: so they are made at most once a second, however often they are asked for.

const LAST_MS = 1_000;

/** What `make` made last; made anew where that was begun a second ago or failed. Callers that come meanwhile share one. */
export function atMostOnceASecond<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  let begun = 0;
  return () => {
    const now = performance.now();
    if (made === undefined || now - begun >= LAST_MS) {
      begun = now;
      const mine = make();
      mine.catch(() => {
        if (made === mine) made = undefined;
      });
      made = mine;
    }
    return made;
  };
}
