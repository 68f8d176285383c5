// Faults of the service: kills.test.ts plays them in turn, soak.ts at random.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Random } from '../../bench/demo/random.js';
import type { Proxy as Line } from '../harness/proxy.js';
import { openRedis } from '../harness/redis.js';
import { slotsOf } from '../harness/slots.js';
import { until } from '../harness/until.js';
import { exception, type Spoiling } from './clickhouse-proxy.js';
import type { Pair, RedisCluster } from './redis-cluster.js';
import { kill, type Part, type Service, signal } from './service.js';

export interface Targets {
  readonly service: Service;
  readonly cluster?: RedisCluster | undefined;
  readonly random: Random;
}

export interface Fault {
  readonly name: string;
  readonly place: 'Redis' | 'ClickHouse' | 'flush' | 'a worker' | 'everything';
  readonly ms: number;
  /** Resolves with a function that ends the fault. */
  begin(targets: Targets): Promise<() => Promise<unknown>>;
}

const STARTS = 20;
const REST_MS = 500;

/**
 * Starts a process as a supervisor does: a process ends if Redis or ClickHouse is away at its start, and is
 * started again.
 */
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

function ofPart(place: Fault['place'], which: (targets: Targets) => Part): readonly Fault[] {
  const fault = (
    name: string,
    ms: number,
    begin: (part: Part) => unknown,
    end: (part: Part) => unknown,
  ): Fault => ({
    name,
    place,
    ms,
    async begin(targets) {
      const part = which(targets);
      await begin(part);
      return async () => await end(part);
    },
  });
  return [
    fault(`kill -9 ${place}`, 1_000, kill, startAgain),
    fault(`${place} stopped`, 5_000, (part) => part.stop(), startAgain),
    fault(
      `${place} frozen`,
      8_000,
      (part) => signal(part, 'SIGSTOP'),
      (part) => signal(part, 'SIGCONT'),
    ),
  ];
}

const again = (
  name: string,
  place: Fault['place'],
  everyMs: number,
  act: (targets: Targets) => unknown,
): Fault => ({
  name,
  place,
  ms: 3_000,
  async begin(targets) {
    let isOver = false;
    const acting = (async () => {
      for (; !isOver; await sleep(everyMs)) await act(targets);
    })();
    return () => {
      isOver = true;
      return acting;
    };
  },
});

const onLine = (name: string, begin: (line: Line) => void): Fault => ({
  name: `line to Redis: ${name}`,
  place: 'Redis',
  ms: 4_000,
  async begin({ service: { redisLine } }) {
    if (redisLine === undefined) throw new Error('no line to Redis');
    begin(redisLine);
    return async () => {
      for (const off of [redisLine.cutReplies, redisLine.delay, redisLine.split]) off(0);
      redisLine.thaw();
    };
  },
});

async function onNodes({ redisUrl }: Service, act: (node: Redis) => Promise<unknown>): Promise<void> {
  const nodes = redisUrl.split(',').map(openRedis);
  for (const node of nodes) node.on('error', () => {}); // the commands report their own errors
  await Promise.all(nodes.map(act));
  for (const node of nodes) node.disconnect();
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

const AROUND: readonly Fault[] = [
  ...ofPart('ClickHouse', ({ service }) => service.clickhouse),
  ...ofPart('flush', ({ service }) => service.flush),
  ...ofPart('a worker', ({ service, random }) => random.pick(service.workers)),
  {
    name: 'inserts spoiled',
    place: 'ClickHouse',
    ms: 0,
    async begin({ service: { clickhouseLine }, random }) {
      for (let i = 0; i < 5; i++)
        clickhouseLine.spoil({ forward: random.chance(0.5), answer: random.pick(ANSWERS) });
      return () => until('they are spoiled', () => clickhouseLine.waiting === 0);
    },
  },
  // A replica refuses the command.
  again('SCRIPT FLUSH', 'Redis', 100, ({ service }) =>
    onNodes(service, (node) => node.script('FLUSH').catch(() => {})),
  ),
  {
    name: 'maxmemory reached',
    place: 'Redis',
    ms: 4_000,
    async begin({ service }) {
      const limit = (bytes: string) => onNodes(service, (node) => node.config('SET', 'maxmemory', bytes));
      await limit('1');
      return () => limit('0');
    },
  },
];

export const SERVER_FAULTS: readonly Fault[] = [
  ...AROUND,
  ...ofPart('Redis', ({ service }) => service.redis),
  {
    name: 'kill -9 everything',
    place: 'everything',
    ms: 0,
    async begin({ service: { redis, clickhouse, workers, flush } }) {
      await Promise.all([redis, clickhouse, flush, ...workers].map(kill));
      return async () => {
        await Promise.all([redis, clickhouse].map((part) => part.start()));
        await Promise.all([flush, ...workers].map((part) => part.start()));
      };
    },
  },
  onLine('one reply in twenty is cut off, at any byte, after its command was done', (line) =>
    line.cutReplies(0.05),
  ),
  onLine('20 ms late', (line) => line.delay(20)),
  onLine('byte by byte', (line) => line.split(1)),
  onLine('nothing passes', (line) => line.freeze()),
  again('line to Redis: connections dropped', 'Redis', 100, ({ service }) => service.redisLine?.dropAll()),
];

const clusterOf = ({ cluster }: Targets): RedisCluster => {
  if (cluster === undefined) throw new Error('no cluster');
  return cluster;
};

/** A fault of a master or its replica; after it, each master has a replica again. */
const ofPair = (
  name: string,
  ms: number,
  begin: (pair: Pair) => Promise<unknown>,
  end: (pair: Pair) => unknown,
): Fault => ({
  name,
  place: 'Redis',
  ms,
  async begin(targets) {
    const cluster = clusterOf(targets);
    const pair = targets.random.pick(await cluster.pairs());
    await begin(pair);
    return async () => {
      await end(pair);
      await cluster.whole();
    };
  },
});
const tookOver = ({ replica }: Pair) =>
  until('the replica is the master', async () => (await replica.role()) === 'master');

const SLOTS_PER_MIGRATION = 40;

async function moveSlots(cluster: RedisCluster, random: Random): Promise<void> {
  const urls = (await cluster.pairs()).map(({ master }) => `redis://127.0.0.1:${master.port}`);
  const nodes = urls.map(openRedis);
  for (const node of nodes) node.on('error', () => {}); // the commands report their own errors
  try {
    const slots = await slotsOf(nodes, urls);
    const from = random.pick([...nodes.keys()]);
    const to = random.pick([...nodes.keys()].filter((node) => node !== from));
    const source = nodes[from] as Redis;
    const keys = await source.keys('*');
    const streams = keys.filter((key) => key.endsWith(':marker'));
    const picked =
      keys.length === 0 ? [] : Array.from({ length: SLOTS_PER_MIGRATION }, () => random.pick(keys));
    const numbers = await Promise.all(
      [...streams, ...picked].map((key) => source.call('CLUSTER', 'KEYSLOT', key)),
    );
    for (const slot of new Set(numbers.map(Number))) {
      await slots.start(slot, from, to);
      await sleep(random.next() * 20);
      while (Number(await source.call('CLUSTER', 'COUNTKEYSINSLOT', slot)) > 0)
        await slots.moveKeys(slot, from, to);
      await slots.end(slot, to);
      await slots.settled();
    }
  } finally {
    for (const node of nodes) node.disconnect();
  }
}

export const CLUSTER_FAULTS: readonly Fault[] = [
  ...AROUND,
  {
    name: 'slots moved',
    place: 'Redis',
    ms: 0,
    async begin(targets) {
      await moveSlots(clusterOf(targets), targets.random);
      return async () => {};
    },
  },
  ofPair('CLUSTER FAILOVER', 0, ({ replica }) => replica.command('CLUSTER', 'FAILOVER'), tookOver),
  ofPair(
    'kill -9 a master',
    2_000,
    async (pair) => {
      await kill(pair.master);
      await tookOver(pair);
    },
    ({ master }) => startAgain(master),
  ),
  ofPair(
    'a replica stopped',
    3_000,
    ({ replica }) => replica.stop(),
    ({ replica }) => startAgain(replica),
  ),
  ofPair(
    'a master frozen', // its replica may take over meanwhile
    8_000,
    async ({ master }) => signal(master, 'SIGSTOP'),
    ({ master }) => signal(master, 'SIGCONT'),
  ),
];
