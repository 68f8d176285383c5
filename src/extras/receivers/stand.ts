// The status of a receiver, summed over its queues at all streams, whose states are written by lua/extras/receivers/.

/** Times are milliseconds since 1970, 0 for never. */
export interface Stand {
  readonly pending: number;
  readonly bytes: number;
  readonly delivered: number;
  readonly failures: number;
  readonly dead: number;
  /** In the last 60 to 65 minutes, as are `failuresInHour`. */
  readonly deliveredInHour: number;
  readonly failuresInHour: number;
  readonly lastSuccessAt: number;
  readonly lastFailureAt: number;
  readonly lastError: string;
  /** Milliseconds since the oldest due delivery was due; 0 if none is. */
  readonly lateMs: number;
}

/** The fields of a queue's state, with its length as `pending`, and the time of its next delivery, or `Infinity`, as `dueAt`. */
export type QueueState = Readonly<Record<string, string>>;

/** The last hour is counted in steps of five minutes: twelve, and the current one. */
const STEP_MS = 5 * 60_000;
const STEPS = 13;

export function standOf(states: readonly QueueState[]): Stand {
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

/** `[step, delivered, failures]` of the last hour's steps. Older ones stay in their slot until it is reused. */
function stepsOfHour(state: QueueState): number[][] {
  const first = Math.floor(Date.now() / STEP_MS) - STEPS + 1;
  const slots = Array.from({ length: STEPS }, (_, i) => (state[`recent${i}`] ?? '').split(' ').map(Number));
  return slots.filter(([step = 0]) => step >= first);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
