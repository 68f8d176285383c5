// Metrics of one `serve` process. The hot path counts in arrays that a scrape reads. A scrape shows all workers of a
// port, labelled `worker`.

import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import type { ErrorCode, Overload } from '../errors.js';
import { FixedHistogram, type HistogramSeries, SECONDS_BUCKETS } from '../metrics/fixed-histogram.js';
import type { Swept } from '../profiles/sweeper.js';
import { LEFT_OUT, type LeftOut } from './left-out.js';
import type { Operation } from './operation.js';
import type { PendingBytes } from './pending-bytes.js';

const SIZE_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const CALL_BUCKETS = [0.0002, ...SECONDS_BUCKETS];

export type Figures = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

export function showAll(byWorker: Readonly<Record<string, Figures>>): Promise<string> {
  const labelled = Object.entries(byWorker).map(([worker, stats]) =>
    stats.map(({ values, ...metric }) => ({
      ...metric,
      // No two series are equal, so nothing is summed; other aggregators drop series.
      aggregator: 'sum',
      values: values.map((sample) => ({ ...sample, labels: { worker, ...sample.labels } })),
    })),
  );
  return AggregatorRegistry.aggregate(labelled).metrics();
}

const FIRST_STATUS = 100;
const STATUSES = 500;
const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'];

class Answers {
  readonly #byStatus = new Float64Array(STATUSES);
  readonly #byClass: readonly HistogramSeries[];

  constructor(durations: FixedHistogram<'operation' | 'status_class'>, operation: string) {
    this.#byClass = CLASSES.map((name) => durations.series(operation, name));
  }

  readonly count = (status: number, ms: number): void => {
    const i = status - FIRST_STATUS;
    this.#byStatus[i] = (this.#byStatus[i] as number) + 1;
    (this.#byClass[(i / 100) | 0] as HistogramSeries).observe(ms / 1000);
  };

  *[Symbol.iterator](): Iterator<readonly [status: number, count: number]> {
    for (const [i, count] of this.#byStatus.entries()) if (count > 0) yield [FIRST_STATUS + i, count];
  }
}

const TYPES = ['add', 'remove', 'moveToCart', 'share', 'autoRemoveAfterPurchase', 'purchase', 'shareOpen'];

export class ServeMetrics {
  readonly registry = new Registry();
  readonly #answers = new Map<string, Answers>();
  readonly #durations: FixedHistogram<'operation' | 'status_class'>;
  readonly #refusals = new Map<ErrorCode, number>();
  readonly #overloads = new Map<Overload, number>();
  readonly #events = new Map<string, number>(TYPES.map((type) => [type, 0]));
  #visitsNotLogged = 0;
  readonly #leftOut = new Map<LeftOut, number>(LEFT_OUT.map((reason) => [reason, 0]));
  readonly #orderFaults = new Map<string, number>();
  #visits = 0;
  #visitsByRobots = 0;
  #shareOpensLost = 0;
  #erasures = 0;
  #addressesDropped = 0;
  readonly #swept: Record<Swept, number> = { share: 0, email: 0, wish: 0 };
  readonly #batchSize: FixedHistogram<'script'>;
  readonly #callSeconds: FixedHistogram<'script'>;
  readonly #calls = new Map<string, HistogramSeries>();
  readonly #replicationSeconds: HistogramSeries;

  constructor(openRequests: () => number, logsVisits: boolean, uws: string, pending: PendingBytes) {
    const { registry } = this;
    const registers = [registry];
    new Gauge({
      name: 'wishmeter_uwebsockets_info',
      help: 'Always 1; `package` is the one that uWebSockets.js was loaded from',
      labelNames: ['package'] as const,
      registers,
    }).set({ package: uws }, 1);
    const answers = this.#answers;
    new Counter({
      name: 'wishmeter_http_answers_total',
      help: 'Answers; 200 is an acknowledgement',
      labelNames: ['operation', 'status'],
      registers,
      collect() {
        this.reset();
        for (const [operation, byStatus] of answers)
          for (const [status, count] of byStatus) this.inc({ operation, status }, count);
      },
    });
    this.#durations = new FixedHistogram(registry, {
      name: 'wishmeter_http_request_duration_seconds',
      help: 'Time to answer a request, since the tick of the event loop that received it',
      labels: ['operation', 'status_class'],
      buckets: SECONDS_BUCKETS,
    });
    new Gauge({
      name: 'wishmeter_http_open_requests',
      help: 'Requests without an answer yet',
      registers,
      collect() {
        this.set(openRequests());
      },
    });
    new Gauge({
      name: 'wishmeter_http_pending_bytes',
      help: 'Bytes of answers that slow clients have not read',
      registers,
      collect() {
        this.set(pending.bytes);
      },
    });
    const [refusals, overloads] = [this.#refusals, this.#overloads];
    new Counter({
      name: 'wishmeter_http_refused_total',
      help: 'Refused requests; for `overloaded`, `why` is `stream` (of events), `redis` (too many calls wait), `memory` (Redis is at its maxmemory), `process`, `readers` (slow ones) or `bodies` (large ones)',
      labelNames: ['code', 'why'],
      registers,
      collect() {
        this.reset();
        for (const [code, count] of refusals) this.inc({ code }, count);
        for (const [why, count] of overloads) this.inc({ code: 'overloaded', why }, count);
      },
    });
    const events = this.#events;
    new Counter({
      name: 'wishmeter_events_total',
      help: 'Events written to the streams; `purchase` is an order line, `shareOpen` an opening of a shared wishlist, `priceDrop` and `backInStock` are alerts',
      labelNames: ['type'],
      registers,
      collect() {
        this.reset();
        for (const [type, count] of events) this.inc({ type }, count);
      },
    });
    const counter = (name: string, help: string, read: () => number) =>
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    counter(
      'wishmeter_http_readers_cut_total',
      'Slow clients disconnected because too many bytes were unread in total',
      () => pending.cut,
    );
    counter('wishmeter_visits_counted_total', 'Visits counted in Redis', () => this.#visits);
    counter(
      'wishmeter_visits_by_robots_total',
      'Visits of robots, answered but not counted',
      () => this.#visitsByRobots,
    );
    counter('wishmeter_visits_logged_total', 'Counted visits logged for ClickHouse', () =>
      logsVisits ? this.#visits - this.#visitsNotLogged : 0,
    );
    counter(
      'wishmeter_visits_not_logged_total',
      'Counted visits not logged, beyond VISIT_LOG_HIGH_WATER',
      () => this.#visitsNotLogged,
    );
    const leftOut = this.#leftOut;
    new Counter({
      name: 'wishmeter_orders_left_out_total',
      help: 'Orders answered 200 without recording a line',
      labelNames: ['reason'] as const,
      registers,
      collect() {
        this.reset();
        for (const [reason, orders] of leftOut) this.inc({ reason }, orders);
      },
    });
    const faults = this.#orderFaults;
    new Counter({
      name: 'wishmeter_order_faults_total',
      help: 'Wrong fields of signed orders, left out with their line',
      labelNames: ['field'] as const,
      registers,
      collect() {
        this.reset();
        for (const [field, found] of faults) this.inc({ field }, found);
      },
    });
    counter(
      'wishmeter_share_opens_not_recorded_total',
      'Openings of shared wishlists missing in share_opens: the stream of events was half full, or Redis did not answer',
      () => this.#shareOpensLost,
    );
    counter('wishmeter_erasures_total', 'Visitors erased from Redis', () => this.#erasures);
    counter(
      'wishmeter_email_profiles_dropped_total',
      'Profiles that an e-mail address no longer leads to, because it was given for over 100',
      () => this.#addressesDropped,
    );
    const swept = this.#swept;
    new Counter({
      name: 'wishmeter_swept_total',
      help: 'Removed entries of expired guests: share codes (`share`), e-mail addresses (`email`) and saved products (`wish`)',
      labelNames: ['kind'] as const,
      registers,
      collect() {
        this.reset();
        for (const [kind, entries] of Object.entries(swept)) this.inc({ kind }, entries);
      },
    });
    this.#batchSize = new FixedHistogram(registry, {
      name: 'wishmeter_batch_operations',
      help: 'Operations that shared one Redis call',
      labels: ['script'],
      buckets: SIZE_BUCKETS,
    });
    this.#callSeconds = new FixedHistogram(registry, {
      name: 'wishmeter_redis_call_duration_seconds',
      help: 'Time until Redis answered a call, or it timed out; `command` is a call without a script',
      labels: ['script'],
      buckets: CALL_BUCKETS,
    });
    this.#replicationSeconds = new FixedHistogram(registry, {
      name: 'wishmeter_redis_replication_wait_duration_seconds',
      help: 'Time until REDIS_REPLICAS replicas had a write, or the wait timed out; part of the calls',
      labels: [],
      buckets: CALL_BUCKETS,
    }).series();
  }

  /** @param operation undefined for unknown paths */
  readonly countAnswers = (operation: Operation | undefined): ((status: number, ms: number) => void) => {
    const name = operation === undefined ? 'none' : `${operation.method} ${operation.path}`;
    const answers = this.#answers.get(name) ?? new Answers(this.#durations, name);
    this.#answers.set(name, answers);
    return answers.count;
  };

  readonly refused = (code: ErrorCode, overload?: Overload): void => {
    if (overload === undefined) this.#refusals.set(code, (this.#refusals.get(code) ?? 0) + 1);
    else this.#overloads.set(overload, (this.#overloads.get(overload) ?? 0) + 1);
  };

  readonly recorded = (type: string, events: number): void => {
    this.#events.set(type, (this.#events.get(type) ?? 0) + events);
  };

  readonly visitsCounted = (visits: number): void => {
    this.#visits += visits;
  };

  readonly visitByRobot = (): void => {
    this.#visitsByRobots++;
  };

  readonly shareOpenLost = (): void => {
    this.#shareOpensLost++;
  };

  readonly visitsNotLogged = (visits: number): void => {
    this.#visitsNotLogged += visits;
  };

  readonly orderLeftOut = (reason: LeftOut): void => {
    this.#leftOut.set(reason, (this.#leftOut.get(reason) ?? 0) + 1);
  };

  readonly orderFault = (field: string): void => {
    this.#orderFaults.set(field, (this.#orderFaults.get(field) ?? 0) + 1);
  };

  readonly erased = (): void => {
    this.#erasures++;
  };

  readonly swept = (kind: Swept, entries: number): void => {
    this.#swept[kind] += entries;
  };

  readonly addressesDropped = (profiles: number): void => {
    this.#addressesDropped += profiles;
  };

  readonly called = (script: string, ms: number): void => {
    let series = this.#calls.get(script);
    if (series === undefined) {
      series = this.#callSeconds.series(script);
      this.#calls.set(script, series);
    }
    series.observe(ms / 1000);
  };

  readonly replicated = (ms: number): void => this.#replicationSeconds.observe(ms / 1000);

  batchObserver(script: string): (size: number, ms: number) => void {
    const sizes = this.#batchSize.series(script);
    const seconds = this.#callSeconds.series(script);
    return (size, ms) => {
      sizes.observe(size);
      seconds.observe(ms / 1000);
    };
  }
}
