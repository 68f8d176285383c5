// Metrics of one `serve` process. The hot path counts in plain numbers, which a scrape reads. It shows all workers of a
// port, each with its label `worker`.

import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import type { ErrorCode, Overload } from '../errors.js';
import { counterBy } from '../metrics/counter-by.js';
import { FixedHistogram, type HistogramSeries, SECONDS_BUCKETS } from '../metrics/fixed-histogram.js';
import { LEFT_OUT } from './left-out.js';
import type { Operation } from './operation.js';
import type { PendingBytes } from './pending-bytes.js';
import { WEBHOOK_LEFT_OUT } from './webhook.js';

const SIZE_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const CALL_BUCKETS = [0.0002, ...SECONDS_BUCKETS];

export type Figures = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

export function showAll(byWorker: Readonly<Record<string, Figures>>): Promise<string> {
  const labelled = Object.entries(byWorker).map(([worker, stats]) =>
    stats.map(({ values, ...metric }) => ({
      ...metric,
      // No two series have the same labels, so nothing is summed. prom-client's `omit` would drop the start time.
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

export type ServeMetrics = ReturnType<typeof createServeMetrics>;

export function createServeMetrics(
  openRequests: () => number,
  logsVisits: boolean,
  uws: string,
  pending: PendingBytes,
) {
  const registry = new Registry();
  const registers = [registry];
  let visits = 0;
  let notLogged = 0;
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  const total = (name: string, help: string, read: () => number) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  const counter = <Label extends string = never>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter<Label>({ name, help, labelNames, registers });
  new Gauge({
    name: 'wishmeter_uwebsockets_info',
    help: 'Always 1; `package` is the one that uWebSockets.js was loaded from',
    labelNames: ['package'] as const,
    registers,
  }).set({ package: uws }, 1);
  const answers = new Map<string, Answers>();
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
  const durations = new FixedHistogram(registry, {
    name: 'wishmeter_http_request_duration_seconds',
    help: 'Time to answer a request, since the tick of the event loop that received it',
    labels: ['operation', 'status_class'],
    buckets: SECONDS_BUCKETS,
  });
  gauge('wishmeter_http_open_requests', 'Requests without an answer yet', openRequests);
  gauge(
    'wishmeter_http_pending_bytes',
    'Bytes of answers that slow clients have not read',
    () => pending.bytes,
  );
  const refused = counter(
    'wishmeter_http_refused_total',
    'Refused requests; for `overloaded`, `why` is `stream` (of events), `redis` (too many calls wait), `memory` (Redis is at its maxmemory), `process`, `readers` (slow ones) or `bodies` (large ones); for `unavailable`, it is `replicas` if Redis has too few',
    'code',
    'why',
  );
  const recorded = counterBy<string>(registry, {
    name: 'wishmeter_events_total',
    help: 'Events written to the streams; `purchase` is an order line, `shareOpen` an opening of a shared wishlist; types of extras come with them',
    label: 'type',
    values: TYPES,
  });
  total(
    'wishmeter_http_readers_cut_total',
    'Slow clients disconnected because too many bytes were unread in total',
    () => pending.cut,
  );
  total('wishmeter_visits_counted_total', 'Visits counted in Redis', () => visits);
  const visitsByRobots = counter(
    'wishmeter_visits_by_robots_total',
    'Visits of robots, answered but not counted',
  );
  total('wishmeter_visits_logged_total', 'Counted visits logged for ClickHouse', () =>
    logsVisits ? visits - notLogged : 0,
  );
  total(
    'wishmeter_visits_not_logged_total',
    'Counted visits not logged, beyond VISIT_LOG_HIGH_WATER',
    () => notLogged,
  );
  const orderLeftOut = counterBy(registry, {
    name: 'wishmeter_orders_left_out_total',
    help: 'Orders answered 200 without recording a line',
    label: 'reason',
    values: LEFT_OUT,
  });
  const webhookLeftOut = counterBy(registry, {
    name: 'wishmeter_webhooks_left_out_total',
    help: "Webhooks answered 200 and ignored: another shop's, or of another topic than their path's",
    label: 'reason',
    values: WEBHOOK_LEFT_OUT,
  });
  const orderFaults = counter(
    'wishmeter_order_faults_total',
    'Wrong fields of signed orders, left out with their line',
    'field',
  );
  const shareOpensLost = counter(
    'wishmeter_share_opens_not_recorded_total',
    'Openings of shared wishlists missing in share_opens: the stream of events was half full, or Redis did not answer',
  );
  const erasures = counter('wishmeter_erasures_total', 'Visitors erased from Redis');
  const addressesDropped = counter(
    'wishmeter_email_profiles_dropped_total',
    'Profiles that an e-mail address no longer leads to, because it was given for over 100',
  );
  const mergeLeftOut = counterBy(registry, {
    name: 'wishmeter_merge_left_out_total',
    help: 'Products and items of guests that did not fit into the profile of the customer who logged in',
    label: 'kind',
    values: ['product', 'item'],
  });
  const sessionsNotLinked = counter(
    'wishmeter_sessions_not_linked_total',
    'Logins of customers who have 10,000 sessions: the session stays as it was',
  );
  const swept = counterBy<string>(registry, {
    name: 'wishmeter_swept_total',
    help: 'Removed entries of expired guests: share codes (`share`), e-mail addresses (`email`), and entries of indexes of items',
    label: 'kind',
    values: ['share', 'email'],
  });
  const batchSize = new FixedHistogram(registry, {
    name: 'wishmeter_batch_operations',
    help: 'Operations that shared one Redis call',
    labels: ['script'],
    buckets: SIZE_BUCKETS,
  });
  const callSeconds = new FixedHistogram(registry, {
    name: 'wishmeter_redis_call_duration_seconds',
    help: 'Time until Redis answered a call, or it timed out; `command` is a call without a script',
    labels: ['script'],
    buckets: CALL_BUCKETS,
  });
  const replicationSeconds = new FixedHistogram(registry, {
    name: 'wishmeter_redis_replication_wait_duration_seconds',
    help: 'Time until REDIS_REPLICAS replicas had a write, or the wait timed out; part of the calls',
    labels: [],
    buckets: CALL_BUCKETS,
  }).series();
  const calls = new Map<string, HistogramSeries>();
  return {
    registry,

    countAnswers(operation: Operation | undefined): (status: number, ms: number) => void {
      const name = operation === undefined ? 'none' : `${operation.method} ${operation.path}`;
      const ofOperation = answers.get(name) ?? new Answers(durations, name);
      answers.set(name, ofOperation);
      return ofOperation.count;
    },

    refused: (code: ErrorCode, why?: Overload) => refused.inc(why === undefined ? { code } : { code, why }),
    recorded,
    orderLeftOut,
    webhookLeftOut,
    mergeLeftOut,
    swept,
    visitsCounted(counted: number): void {
      visits += counted;
    },
    visitsNotLogged(counted: number): void {
      notLogged += counted;
    },
    visitByRobot: () => visitsByRobots.inc(),
    shareOpenLost: () => shareOpensLost.inc(),
    orderFault: (field: string) => orderFaults.inc({ field }),
    erased: () => erasures.inc(),
    addressesDropped: (profiles: number) => addressesDropped.inc(profiles),
    sessionLeftOut: () => sessionsNotLinked.inc(),

    called(script: string, ms: number): void {
      let series = calls.get(script);
      if (series === undefined) {
        series = callSeconds.series(script);
        calls.set(script, series);
      }
      series.observe(ms / 1000);
    },

    replicated: (ms: number) => replicationSeconds.observe(ms / 1000),

    batchObserver(script: string): (size: number, ms: number) => void {
      const sizes = batchSize.series(script);
      const seconds = callSeconds.series(script);
      return (size, ms) => {
        sizes.observe(size);
        seconds.observe(ms / 1000);
      };
    },
  };
}
