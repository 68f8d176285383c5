// What can go wrong with the service: each fault begins, lasts, and is undone. kills.test.ts plays them in turn.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Random } from '../../bench/demo/random.js';
import { type Proxy as Line, startProxy } from '../harness/proxy.js';
import { openRedis, type Scope } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { type ClickHouseProxy, exception, type Spoiling, startClickHouseProxy } from './clickhouse-proxy.js';
import { kill, openService, type Part, type Service, type ServiceSpec, signal } from './service.js';

export interface Targets {
  readonly service: Service;
  readonly redisLine: Line;
  readonly clickhouseLine: ClickHouseProxy;
  readonly random: Random;
}

export interface Fault {
  readonly name: string;
  /** Milliseconds that it lasts, at most. */
  readonly ms: number;
  /** Resolves with what undoes it. */
  begin(targets: Targets): Promise<() => Promise<unknown>>;
}

/** Two workers with proxies before Redis and ClickHouse; they end with the test. */
export async function openTargets(t: Scope, random: Random, env: ServiceSpec['env'] = {}): Promise<Targets> {
  const lines: { redis?: Line; clickhouse?: ClickHouseProxy } = {};
  const service = await openService(t, {
    workers: 2,
    env,
    via: {
      async redis(url) {
        lines.redis = await startProxy(t, url);
        return lines.redis.url;
      },
      async clickhouse(url) {
        lines.clickhouse = await startClickHouseProxy(t, url);
        return lines.clickhouse.url;
      },
    },
  });
  return {
    service,
    random,
    redisLine: lines.redis as Line,
    clickhouseLine: lines.clickhouse as ClickHouseProxy,
  };
}

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

/** What may happen to a process: it is killed, stopped, or frozen. */
function ofPart(what: string, which: (targets: Targets) => Part): readonly Fault[] {
  const fault = (
    name: string,
    ms: number,
    begin: (part: Part) => unknown,
    end: (part: Part) => unknown,
  ): Fault => ({
    name,
    ms,
    async begin(targets) {
      const part = which(targets);
      await begin(part);
      return async () => await end(part);
    },
  });
  return [
    fault(`kill -9 ${what}`, 1_000, kill, startAgain),
    fault(`${what} stopped`, 5_000, (part) => part.stop(), startAgain),
    fault(
      `${what} frozen`,
      8_000,
      (part) => signal(part, 'SIGSTOP'),
      (part) => signal(part, 'SIGCONT'),
    ),
  ];
}

/** Something that is done again and again. */
const again = (name: string, everyMs: number, act: (targets: Targets) => unknown): Fault => ({
  name,
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

const onLine = (name: string, begin: (line: Line) => void, end: (line: Line) => void): Fault => ({
  name: `line to Redis: ${name}`,
  ms: 4_000,
  async begin({ redisLine }) {
    begin(redisLine);
    return async () => end(redisLine);
  },
});

async function onRedis({ redisUrl }: Service, act: (redis: Redis) => Promise<unknown>): Promise<void> {
  const redis = openRedis(redisUrl);
  redis.on('error', () => {}); // those of the commands are enough
  await act(redis);
  redis.disconnect();
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

export const SERVER_FAULTS: readonly Fault[] = [
  ...ofPart('ClickHouse', ({ service }) => service.clickhouse),
  ...ofPart('flush', ({ service }) => service.flush),
  ...ofPart('a worker', ({ service, random }) => random.pick(service.workers)),
  {
    name: 'inserts spoiled',
    ms: 0,
    async begin({ clickhouseLine, random }) {
      for (let i = 0; i < 5; i++)
        clickhouseLine.spoil({ forward: random.chance(0.5), answer: random.pick(ANSWERS) });
      return () => until('they are spoiled', () => clickhouseLine.waiting === 0);
    },
  },
  again('SCRIPT FLUSH', 100, ({ service }) =>
    onRedis(service, (redis) => redis.script('FLUSH').catch(() => {})),
  ),
  {
    name: 'maxmemory reached',
    ms: 4_000,
    async begin({ service }) {
      const limit = (bytes: string) => onRedis(service, (redis) => redis.config('SET', 'maxmemory', bytes));
      await limit('1');
      return () => limit('0');
    },
  },
  ...ofPart('Redis', ({ service }) => service.redis),
  {
    name: 'kill -9 everything',
    ms: 0,
    async begin({ service: { redis, clickhouse, workers, flush } }) {
      await Promise.all([redis, clickhouse, flush, ...workers].map(kill));
      return async () => {
        await Promise.all([redis, clickhouse].map((part) => part.start()));
        await Promise.all([flush, ...workers].map((part) => part.start()));
      };
    },
  },
  onLine(
    'one reply in twenty is cut off, at any byte, after its command was done',
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
  again('line to Redis: connections dropped', 100, ({ redisLine }) => redisLine.dropAll()),
];
