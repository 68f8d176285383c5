// What can go wrong in a soak: each fault begins, lasts, and is undone, so that the next one meets a service
// that has got up again. The dice decide; the same seed throws the same.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../../../bench/demo/random.js';
import type { Proxy as Line } from '../../harness/proxy.js';
import { until } from '../../harness/until.js';
import { type ClickHouseProxy, exception, type Spoiling } from '../clickhouse-proxy.js';
import { connectNodesAt } from '../redis-at.js';
import { kill, type Part, type Service, signal } from '../service.js';
import type { SoakCluster } from './cluster.js';

export interface Targets {
  readonly service: Service;
  /** To the one Redis; a cluster has none. */
  readonly redisLine: Line | undefined;
  readonly cluster: SoakCluster | undefined;
  readonly clickhouseLine: ClickHouseProxy;
  readonly random: Random;
}

export interface Fault {
  readonly name: string;
  /** What it happens to. */
  readonly place: 'Redis' | 'ClickHouse' | 'flush' | 'a worker' | 'everything';
  /** Resolves when it is over and undone. */
  run(targets: Targets): Promise<void>;
}

const between = (random: Random, from: number, to: number) => from + random.next() * (to - from);
const lasting = async (random: Random, ms: number) => await sleep(between(random, ms / 4, ms));

const STARTS = 20;
const REST_MS = 500;

/** As a supervisor does: what finds Redis or ClickHouse away at its start ends, and is started once more. */
async function startAgain(part: Part): Promise<void> {
  for (let left = STARTS; ; left--) {
    try {
      return await part.start();
    } catch (error) {
      if (left === 0) throw error;
      await sleep(REST_MS);
    }
  }
}

/** Killed and started again. */
function killed(name: Fault['place'], which: (targets: Targets) => Part): Fault {
  return {
    name: `kill -9 ${name}`,
    place: name,
    async run(targets) {
      const part = which(targets);
      await kill(part);
      await lasting(targets.random, 1_000);
      await startAgain(part);
    },
  };
}

function stopped(name: Fault['place'], which: (targets: Targets) => Part): Fault {
  return {
    name: `${name} stopped`,
    place: name,
    async run(targets) {
      const part = which(targets);
      await part.stop();
      await lasting(targets.random, 5_000);
      await startAgain(part);
    },
  };
}

function frozen(name: Fault['place'], which: (targets: Targets) => Part): Fault {
  return {
    name: `${name} frozen`,
    place: name,
    async run(targets) {
      const part = which(targets);
      signal(part, 'SIGSTOP');
      await lasting(targets.random, 8_000);
      signal(part, 'SIGCONT');
    },
  };
}

function onLine(name: string, begin: (line: Line) => void, end: (line: Line) => void): Fault {
  return {
    name: `line to Redis: ${name}`,
    place: 'Redis',
    async run({ redisLine, random }) {
      if (redisLine === undefined) throw new Error('no line to Redis');
      begin(redisLine);
      await lasting(random, 4_000);
      end(redisLine);
    },
  };
}

const ANSWERS: readonly Spoiling['answer'][] = [
  'nothing: the connection closes',
  'half a status line',
  'a body that ends early',
  { status: 504, body: '<html><h1>504 Gateway Time-out</h1></html>' },
  { status: 500, code: 252, body: exception(252, 'Too many parts (3000)', 'TOO_MANY_PARTS') },
  { status: 500, code: 241, body: exception(241, 'Memory limit (total) exceeded', 'MEMORY_LIMIT_EXCEEDED') },
  { status: 500, code: 1002, body: exception(1002, 'std::exception', 'UNKNOWN_EXCEPTION') },
];

const redis = ({ service }: Targets) => service.redis;
const clickhouse = ({ service }: Targets) => service.clickhouse;
const flush = ({ service }: Targets) => service.flush;
const worker = ({ service, random }: Targets) => random.pick(service.workers);

const clusterOf = ({ cluster }: Targets): SoakCluster => {
  if (cluster === undefined) throw new Error('no cluster');
  return cluster;
};

/** Everything but Redis, whatever form that has. */
const AROUND: readonly Fault[] = [
  ...(
    [
      ['ClickHouse', clickhouse],
      ['flush', flush],
      ['a worker', worker],
    ] as const
  ).flatMap(([name, which]) => [killed(name, which), stopped(name, which), frozen(name, which)]),
  {
    name: 'inserts spoiled',
    place: 'ClickHouse',
    async run({ clickhouseLine, random }) {
      for (let i = 0; i < 5; i++)
        clickhouseLine.spoil({ forward: random.chance(0.5), answer: random.pick(ANSWERS) });
      for (let i = 0; clickhouseLine.waiting > 0 && i < 100; i++) await sleep(100);
    },
  },
  {
    name: 'SCRIPT FLUSH',
    place: 'Redis',
    async run({ service }) {
      const clients = connectNodesAt(service.redisUrl);
      for (let i = 0; i < 30; i++) {
        // Of a replica it is refused.
        await Promise.all(clients.map((client) => client.script('FLUSH').catch(() => {})));
        await sleep(100);
      }
      for (const client of clients) client.disconnect();
    },
  },
  {
    name: 'maxmemory reached',
    place: 'Redis',
    async run({ service, random }) {
      const clients = connectNodesAt(service.redisUrl);
      const limit = (bytes: string) =>
        Promise.all(clients.map((client) => client.config('SET', 'maxmemory', bytes)));
      await limit('1');
      await lasting(random, 4_000);
      await limit('0');
      for (const client of clients) client.disconnect();
    },
  },
];

/** Where there is one Redis, and a line to it. */
export const SERVER_FAULTS: readonly Fault[] = [
  ...AROUND,
  ...[killed('Redis', redis), stopped('Redis', redis), frozen('Redis', redis)],
  {
    name: 'kill -9 everything at once',
    place: 'everything',
    async run({ service }) {
      const { redis, clickhouse, workers, flush } = service;
      await Promise.all([redis, clickhouse, flush, ...workers].map(kill));
      await Promise.all([redis.start(), clickhouse.start()]);
      await Promise.all([flush, ...workers].map((part) => part.start()));
    },
  },
  onLine(
    'replies cut',
    (line) => line.cutReplies(0.05),
    (line) => line.cutReplies(0),
  ),
  onLine(
    '20 ms late',
    (line) => line.delay(20),
    (line) => line.delay(0),
  ),
  onLine(
    'byte by byte',
    (line) => line.split(1),
    (line) => line.split(0),
  ),
  onLine(
    'nothing passes',
    (line) => line.freeze(),
    (line) => line.thaw(),
  ),
  {
    name: 'line to Redis: connections dropped',
    place: 'Redis',
    async run({ redisLine, random }) {
      for (let i = 0; i < 30; i++) {
        redisLine?.dropAll();
        await lasting(random, 200);
      }
    },
  },
];

/** Where there is a cluster of masters with replicas. */
export const CLUSTER_FAULTS: readonly Fault[] = [
  ...AROUND,
  {
    name: 'CLUSTER FAILOVER',
    place: 'Redis',
    async run(targets) {
      const cluster = clusterOf(targets);
      const { replica } = await cluster.pair(targets.random.pick);
      await replica.command('CLUSTER', 'FAILOVER');
      await until('the replica is the master', async () => (await replica.role()) === 'master', 60_000);
      await cluster.whole();
    },
  },
  {
    name: 'kill -9 a master',
    place: 'Redis',
    async run(targets) {
      const cluster = clusterOf(targets);
      const { master, replica } = await cluster.pair(targets.random.pick);
      await kill(master);
      await until('the replica is the master', async () => (await replica.role()) === 'master', 60_000);
      await lasting(targets.random, 2_000);
      await startAgain(master);
      await cluster.whole();
    },
  },
  {
    name: 'a replica stopped',
    place: 'Redis',
    async run(targets) {
      const cluster = clusterOf(targets);
      const { replica } = await cluster.pair(targets.random.pick);
      await replica.stop();
      await lasting(targets.random, 3_000);
      await startAgain(replica);
      await cluster.whole();
    },
  },
  {
    name: 'a master frozen',
    place: 'Redis',
    async run(targets) {
      const cluster = clusterOf(targets);
      const { master } = await cluster.pair(targets.random.pick);
      signal(master, 'SIGSTOP');
      await lasting(targets.random, 8_000); // its replica may take over meanwhile
      signal(master, 'SIGCONT');
      await cluster.whole();
    },
  },
];
