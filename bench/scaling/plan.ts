// What a deployment of a size needs: the sums of docs/scaling.md, whose tables a test holds against these. Costs of CPU are
// those of bench/README.md (2 cores, Xeon) and of `make bench-scaling`; of bytes, what Redis and ClickHouse tell.

/** Microseconds of CPU for a visit, and for the call of Redis that it shares with others. */
const VISIT = {
  serve: { visit: 27, call: 130 },
  redis: { visit: 6.5, call: 80 },
} as const;
/** Of a visit's row, from the stream to ClickHouse. */
const ROW = { flush: 2, clickhouse: 5 } as const;
/** Of an event, all told. */
const EVENT = { serve: 49, redis: 11.4, flush: 6, clickhouse: 8 } as const;

/** Bytes of a visit. */
const BYTES = {
  /** Of HTTP, both ways, as a browser sends it. */
  client: 1_200,
  /** To Redis, and to each of its replicas. */
  redis: 91,
  appendOnly: 125,
  /** In the stream while ClickHouse is away. */
  waiting: 43,
  clickhouse: 9,
} as const;
const EVENT_BYTES = { client: 1_800, redis: 600, appendOnly: 650, clickhouse: 54 } as const;
/** Of Redis's memory. */
const VISITOR_BYTES = 121;
const FURTHER_PRODUCT_BYTES = 25;

/** Shares of a core that a process may be busy with, so that peaks and the loss of a neighbour fit. */
const BUSY = 0.6;
/** Visits that share a call where there is much to do. */
const PER_CALL = 16;
const EVENTS_PER_VISIT = 0.05;
/** The day's mean to its peak. */
const MEAN = 1 / 3;
const PRODUCTS = 10;
/** Of a master: what a fork, a restart and a copy to a replica take grows with it. */
const MASTER_GB = 25;
const RETENTION_DAYS = 400;
const DAY_S = 86_400;
/** Without ClickHouse, at the peak. */
const OUTAGE_S = 3_600;

export interface VisitCpu {
  readonly serve: number;
  readonly redis: number;
}

/** Microseconds of CPU of a visit. @param perCall visits that share a call of Redis */
export function cpuOfVisit(perCall: number): VisitCpu {
  const of = ({ visit, call }: { visit: number; call: number }) => visit + call / perCall;
  return { serve: of(VISIT.serve), redis: of(VISIT.redis) };
}

export interface Size {
  /** Visits a second, at the peak. */
  readonly visits: number;
  /** Visitors whom Redis keeps, with ten products each. */
  readonly visitors: number;
}

export const SIZES: readonly Size[] = [
  { visits: 1_000, visitors: 20e6 },
  { visits: 100_000, visitors: 300e6 },
  { visits: 1_000_000, visitors: 1e9 },
];

export interface Needs {
  /** Cores at the peak. */
  readonly cores: {
    readonly serve: number;
    readonly redis: number;
    readonly flush: number;
    readonly clickhouse: number;
  };
  /** Processes; at least two of each, so that one may be lost. A replica for each master. */
  readonly serve: number;
  readonly masters: number;
  readonly flush: number;
  /** GB of Redis's memory, all masters, without replicas. */
  readonly memory: number;
  /** GB more for an hour without ClickHouse. */
  readonly outage: number;
  /** Megabits a second at the peak: of clients, and to Redis with a replica each. */
  readonly clientMbit: number;
  readonly redisMbit: number;
  /** MB/s of the append-only files at the peak, masters only. */
  readonly appendOnly: number;
  /** TB of ClickHouse after 400 days, one copy. */
  readonly disk: number;
}

export function needsOf({ visits, visitors }: Size): Needs {
  const events = visits * EVENTS_PER_VISIT;
  const visit = cpuOfVisit(PER_CALL);
  const cores = {
    serve: (visits * visit.serve + events * EVENT.serve) / 1e6,
    redis: (visits * visit.redis + events * EVENT.redis) / 1e6,
    flush: (visits * ROW.flush + events * EVENT.flush) / 1e6,
    clickhouse: (visits * ROW.clickhouse + events * EVENT.clickhouse) / 1e6,
  };
  const memory = (visitors * (VISITOR_BYTES + (PRODUCTS - 1) * FURTHER_PRODUCT_BYTES)) / 1e9;
  const outage = (OUTAGE_S * (visits * BYTES.waiting + events * EVENT_BYTES.redis)) / 1e9;
  const processes = (work: number) => Math.max(2, Math.ceil(work / BUSY));
  const perDay = DAY_S * MEAN;
  return {
    cores,
    serve: processes(cores.serve),
    masters: Math.max(Math.ceil(cores.redis / BUSY), Math.ceil((memory + outage) / MASTER_GB)),
    flush: processes(cores.flush),
    memory,
    outage,
    clientMbit: ((visits * BYTES.client + events * EVENT_BYTES.client) * 8) / 1e6,
    redisMbit: (2 * (visits * BYTES.redis + events * EVENT_BYTES.redis) * 8) / 1e6,
    appendOnly: (visits * BYTES.appendOnly + events * EVENT_BYTES.appendOnly) / 1e6,
    disk: (RETENTION_DAYS * perDay * (visits * BYTES.clickhouse + events * EVENT_BYTES.clickhouse)) / 1e12,
  };
}

const count = (value: number) => Math.round(value).toLocaleString('en');
const few = (value: number) => (value < 10 ? value.toFixed(value < 0.1 ? 3 : 1) : count(value));

/** The plan's table in Markdown. */
export function planTable(): string {
  const all = SIZES.map(needsOf);
  const row = (title: string, cells: readonly string[]) => `| ${[title, ...cells].join(' | ')} |`;
  const of = (title: string, figure: (needs: Needs) => number) =>
    row(
      title,
      all.map((needs) => few(figure(needs))),
    );
  return [
    row(
      'visits a second, at the peak',
      SIZES.map(({ visits }) => count(visits)),
    ),
    `| :-- |${' --: |'.repeat(SIZES.length)}`,
    row(
      'visitors that Redis keeps, million',
      SIZES.map(({ visitors }) => count(visitors / 1e6)),
    ),
    of('cores: `serve`', ({ cores }) => cores.serve),
    of('cores: Redis', ({ cores }) => cores.redis),
    of('cores: `flush`', ({ cores }) => cores.flush),
    of('cores: ClickHouse, inserts', ({ cores }) => cores.clickhouse),
    row(
      '`serve` processes',
      all.map(({ serve }) => count(serve)),
    ),
    row(
      'Redis masters, with a replica each',
      all.map(({ masters }) => count(masters)),
    ),
    row(
      '`flush` processes',
      all.map(({ flush }) => count(flush)),
    ),
    of('Redis memory, masters, GB', ({ memory }) => memory),
    of('… more for an hour without ClickHouse, GB', ({ outage }) => outage),
    of('append-only files, MB/s', ({ appendOnly }) => appendOnly),
    of('network to clients, Mbit/s', ({ clientMbit }) => clientMbit),
    of('network to Redis and its replicas, Mbit/s', ({ redisMbit }) => redisMbit),
    of('ClickHouse after 400 days, one copy, TB', ({ disk }) => disk),
  ].join('\n');
}

/** What one process carries, in Markdown. */
export function carriesTable(): string {
  const { serve, redis } = cpuOfVisit(PER_CALL);
  const rows: readonly (readonly [string, number, number])[] = [
    ['`serve`', serve, EVENT.serve],
    ['Redis master', redis, EVENT.redis],
    ['`flush`', ROW.flush, EVENT.flush],
    ['ClickHouse, inserts, for each core', ROW.clickhouse, EVENT.clickhouse],
  ];
  const carried = (us: number) => count(Math.floor((BUSY * 1e6) / us / 1_000) * 1_000);
  const lines = rows.map(([what, visit, event]) =>
    [what, visit.toFixed(1), carried(visit), event.toFixed(1), carried(event)].join(' | '),
  );
  return [
    '| one | µs of CPU for a visit | visits a second | µs for an event | events a second |',
    '| :-- | --: | --: | --: | --: |',
    ...lines.map((line) => `| ${line} |`),
  ].join('\n');
}
