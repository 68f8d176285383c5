// The figures of one `serve` process. The hot path counts in plain numbers; Prometheus reads them when it asks.
// Where several workers share a port a scrape meets any of them, and it shows all: each series then says whose it is.

import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { ErrorCode } from '../errors.js';
import type { Operation } from './operation.js';

const SIZE_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const SECONDS_BUCKETS = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5];

/** The figures of one process, as they travel to another. */
export type Figures = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** As Prometheus reads them, each series with its `worker`. @param byWorker by the worker's name */
export function showAll(byWorker: Readonly<Record<string, Figures>>): Promise<string> {
  const labelled = Object.entries(byWorker).map(([worker, figures]) =>
    figures.map(({ values, ...metric }) => ({
      ...metric,
      // No two series are the same, so nothing is added up; but this one keeps every series.
      aggregator: 'sum',
      values: values.map((sample) => ({ ...sample, labels: { worker, ...sample.labels } })),
    })),
  );
  return AggregatorRegistry.aggregate(labelled).metrics();
}

export class ServeMetrics {
  readonly registry = new Registry();
  /** operation -> status -> answers */
  readonly #answers = new Map<string, Map<number, number>>();
  readonly #refusals = new Map<ErrorCode, number>();
  readonly #notLogged: Counter<'why'>;
  readonly #batchSize: Histogram;
  readonly #batchSeconds: Histogram;
  readonly #callSeconds: Histogram;

  /** @param openRequests requests that have no answer yet */
  constructor(openRequests: () => number) {
    const { registry } = this;
    collectDefaultMetrics({ register: registry });
    const answers = this.#answers;
    new Counter({
      name: 'wishmeter_http_answers_total',
      help: 'Answers by operation and status; those of status 200 are what was acknowledged',
      labelNames: ['operation', 'status'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [operation, byStatus] of answers) {
          for (const [status, count] of byStatus) this.inc({ operation, status }, count);
        }
      },
    });
    new Gauge({
      name: 'wishmeter_http_open_requests',
      help: 'Requests that have no answer yet',
      registers: [registry],
      collect() {
        this.set(openRequests());
      },
    });
    const refusals = this.#refusals;
    new Counter({
      name: 'wishmeter_http_refused_total',
      help: 'Requests refused, by the code that their answers gave',
      labelNames: ['code'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [code, count] of refusals) this.inc({ code }, count);
      },
    });
    this.#notLogged = new Counter({
      name: 'wishmeter_visits_not_logged_total',
      help: 'Visits that were counted and are not in the log: its stream was full, or at another node (elsewhere)',
      labelNames: ['why'] as const,
      registers: [registry],
    });
    for (const why of ['full', 'elsewhere']) this.#notLogged.inc({ why }, 0);
    this.#batchSize = new Histogram({
      name: 'wishmeter_batch_operations',
      help: 'Operations that shared one Redis call',
      labelNames: ['script'],
      buckets: SIZE_BUCKETS,
      registers: [registry],
    });
    this.#batchSeconds = new Histogram({
      name: 'wishmeter_batch_seconds',
      help: 'Time until Redis answered a batch',
      labelNames: ['script'],
      buckets: SECONDS_BUCKETS,
      registers: [registry],
    });
    this.#callSeconds = new Histogram({
      name: 'wishmeter_redis_call_seconds',
      help: 'Time until Redis answered a call that is no batch, or was given up',
      buckets: SECONDS_BUCKETS,
      registers: [registry],
    });
  }

  /** Counts the answers of an operation, or of what is none. */
  readonly countAnswers = (operation: Operation | undefined): ((status: number) => void) => {
    const name = operation === undefined ? 'none' : `${operation.method} ${operation.path}`;
    const byStatus = this.#answers.get(name) ?? new Map<number, number>();
    this.#answers.set(name, byStatus);
    return (status) => byStatus.set(status, (byStatus.get(status) ?? 0) + 1);
  };

  readonly refused = (code: ErrorCode): void => {
    this.#refusals.set(code, (this.#refusals.get(code) ?? 0) + 1);
  };

  readonly visitsNotLogged = (why: 'full' | 'elsewhere', visits: number): void =>
    this.#notLogged.inc({ why }, visits);

  readonly called = (ms: number): void => this.#callSeconds.observe(ms / 1000);

  batchObserver(script: string): (size: number, ms: number) => void {
    return (size, ms) => {
      this.#batchSize.observe({ script }, size);
      this.#batchSeconds.observe({ script }, ms / 1000);
    };
  }
}
