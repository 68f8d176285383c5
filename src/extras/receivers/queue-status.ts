// The status of a receiver, summed over its queues.

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

/** Fields of the state hash, plus `pending` and the next delivery's `dueAt`, or `Infinity`. */
export type QueueState = Readonly<Record<string, string>>;

/** Counts are kept by steps of five minutes: an hour is twelve, plus the current one. */
const STEP_MS = 5 * 60_000;
const STEPS = 13;

export function statusOf(states: readonly QueueState[]): QueueStatus {
  const all = (name: string) => states.map((state) => Number(state[name] ?? 0));
  const total = (name: string) => sum(all(name));
  const latest = (name: string) => Math.max(0, ...all(name));
  const lastFailureAt = latest('lastFailureAt');
  const steps = states.flatMap(stepsOfHour);
  return {
    pending: total('pending'),
    bytes: total('bytes'),
    delivered: total('delivered'),
    failures: total('failures'),
    dead: total('dead'),
    deliveredInHour: sum(steps.map(([, delivered = 0]) => delivered)),
    failuresInHour: sum(steps.map(([, , failures = 0]) => failures)),
    lastSuccessAt: latest('lastSuccessAt'),
    lastFailureAt,
    lastError: states[all('lastFailureAt').indexOf(lastFailureAt)]?.['lastError'] ?? '',
    lateMs: Math.max(0, Date.now() - Math.min(...all('dueAt'))),
  };
}

/** Returns `[step, delivered, failures]` of each slot, without slots of an older step. */
function stepsOfHour(state: QueueState): number[][] {
  const first = Math.floor(Date.now() / STEP_MS) - STEPS + 1;
  const slots = Array.from({ length: STEPS }, (_, i) => (state[`recent${i}`] ?? '').split(' ').map(Number));
  return slots.filter(([step = 0]) => step >= first);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
