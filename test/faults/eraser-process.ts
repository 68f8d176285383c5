// An eraser that kills itself before, during or after a mutation of ClickHouse. Its argument is its spec as
// JSON.

import { createClickHouse } from '../../src/clickhouse/client.js';
import { RowEraser } from '../../src/flush/row-eraser.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { until } from '../harness/until.js';

export interface EraserProcessSpec {
  readonly redisUrls: readonly string[];
  readonly prefix: string;
  readonly clickhouseUrl: string;
  readonly database: string;
  /** Number of the mutation, from 1. */
  readonly mutation: number;
  readonly when: 'before' | 'meanwhile' | 'after';
}

const spec = JSON.parse(process.argv[2] ?? '') as EraserProcessSpec;
const redis = await connectRedis({ urls: spec.redisUrls, name: 'eraser', timeoutMs: 20_000 }, () => {});
const clickhouse = createClickHouse(spec.clickhouseUrl, spec.database);
const { command } = clickhouse;
let mutations = 0;
clickhouse.command = async (params) => {
  const isNext = params.query.startsWith('ALTER') && ++mutations === spec.mutation;
  const die = () => process.kill(process.pid, 'SIGKILL');
  if (isNext && spec.when === 'before') die();
  const answer = command.call(clickhouse, params);
  if (isNext && spec.when === 'meanwhile') {
    const mine = `SELECT 1 FROM system.mutations WHERE database = '${spec.database}'`;
    // ClickHouse has accepted the mutation; it may be done before this query sees it.
    await until('the mutation was taken', async () => {
      const found = await clickhouse.query({ query: mine, format: 'JSONEachRow' });
      return (await found.json()).length >= spec.mutation;
    });
    die();
  }
  const done = await answer;
  if (isNext && spec.when === 'after') die();
  return done;
};

const keys = createKeys(spec.prefix);
const eraser = new RowEraser({ redis, keys, clickhouse, inFlightMs: 0, lateMs: 0 });
await until('the erasure is done', async () => (await eraser.run()).length > 0);
