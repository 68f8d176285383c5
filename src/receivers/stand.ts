// How a receiver stands, over its queues beside all streams: what the fields of their states mean in sum. (lua/deliveries-*.lua write
// them.)

/** Figures of a receiver; times are milliseconds since 1970, 0 for never. */
export interface Stand {
  readonly pending: number;
  readonly bytes: number;
  readonly delivered: number;
  readonly failures: number;
  readonly dead: number;
  /** Of the last 60 to 65 minutes, as are `failuresInHour`. */
  readonly deliveredInHour: number;
  readonly failuresInHour: number;
  readonly lastSuccessAt: number;
  readonly lastFailureAt: number;
  readonly lastError: string;
  /** Milliseconds that the delivery which is due for longest has waited; 0 where none is due. */
  readonly lateMs: number;
}

/** The fields of a queue's state, its length as `pending`, and as `dueAt` when its first delivery is due: `Infinity` for never. */
export type QueueState = Readonly<Record<string, string>>;

/** The steps in which the last hour is counted: those of an hour, and the one that is not over. */
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

/** `[step, delivered, failures]` of those in the last hour. An older one stays in its slot until that is used again. */
function stepsOfHour(state: QueueState): number[][] {
  const first = Math.floor(Date.now() / STEP_MS) - STEPS + 1;
  const slots = Array.from({ length: STEPS }, (_, i) => (state[`recent${i}`] ?? '').split(' ').map(Number));
  return slots.filter(([step = 0]) => step >= first);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
