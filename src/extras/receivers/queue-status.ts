// The status of a receiver's queue, from its stats.

/** Times are milliseconds since 1970, or 0 for never. */
export interface QueueStatus {
  readonly pending: number;
  readonly bytes: number;
  readonly delivered: number;
  readonly failures: number;
  readonly dead: number;
  /** In the last 60 to 65 minutes, like `failuresInHour`. */
  readonly deliveredInHour: number;
  readonly failuresInHour: number;
  readonly lastSuccessAt: number;
  readonly lastFailureAt: number;
  readonly lastError: string;
  /** How late the oldest due delivery is; 0 if none is due. */
  readonly lateMs: number;
}

/** Counts are kept by steps of five minutes: an hour is twelve, plus the current one. */
const STEP_MS = 5 * 60_000;
const STEPS = 13;
/** Scores of `due`: milliseconds times this, plus the number of attempts. */
const SCORE_PER_MS = 16;

/** @param first the lowest score of `due` */
export function statusOf(
  stats: Readonly<Record<string, string>>,
  pending: number,
  first = 'Infinity',
): QueueStatus {
  const number = (name: string) => Number(stats[name] ?? 0);
  const oldest = Math.floor(Date.now() / STEP_MS) - STEPS + 1;
  const steps = Array.from({ length: STEPS }, (_, i) => (stats[`recent${i}`] ?? '').split(' ').map(Number));
  const inHour = (kind: 1 | 2) =>
    steps.reduce((sum, step) => sum + ((step[0] ?? 0) >= oldest ? (step[kind] ?? 0) : 0), 0);
  return {
    pending,
    bytes: number('bytes'),
    delivered: number('delivered'),
    failures: number('failures'),
    dead: number('dead'),
    deliveredInHour: inHour(1),
    failuresInHour: inHour(2),
    lastSuccessAt: number('lastSuccessAt'),
    lastFailureAt: number('lastFailureAt'),
    lastError: stats['lastError'] ?? '',
    lateMs: Math.max(0, Date.now() - Math.floor(Number(first) / SCORE_PER_MS)),
  };
}
