// A service on databases to back up and restore, and reads of everything that they hold.

import { pino } from 'pino';
import type { Test } from 'tap';
import { flush } from '../../src/app/flush.js';
import { exampleOf, loadViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { readConfig } from '../../src/config.js';
import type { EmbeddedClickHouse } from '../../src/extras/embedded/clickhouse/start.js';
import { startApp, type TestApp } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { connectToEach, type TestRedis } from '../harness/redis.js';
import { runHere } from './in-process.js';
import { sql } from './started.js';
import { until } from './wishmeter.js';

export const PREFIX = 'wm';
export const GUESTS = 6;
/** Guests who log in while a backup runs. */
export const LATE = 60;
export const nameOf = (i: number) => ({ sessionId: `s-${i}` });

export interface Deployment {
  readonly redis: TestRedis;
  readonly clickhouse: Pick<EmbeddedClickHouse, 'url'>;
  readonly database: string;
}

export const settingsOf = ({ redis, clickhouse, database }: Deployment) => ({
  REDIS_URL: redis.urls.join(','),
  KEY_PREFIX: PREFIX,
  CLICKHOUSE_URL: clickhouse.url,
  CLICKHOUSE_DATABASE: database,
});

export async function runWell(
  t: Test,
  command: 'backup' | 'restore',
  folder: string,
  deployment: Deployment,
): Promise<string> {
  const { code, stdout, stderr } = await runHere(command, [folder], settingsOf(deployment));
  t.same({ code, stderr }, { code: 0, stderr: '' }, command);
  return stdout;
}

export async function startService(t: Test, deployment: Deployment) {
  // The month of the small world is old, and stays.
  const env = { ...settingsOf(deployment), FLUSH_INTERVAL_MS: '500', VISIT_RETENTION_DAYS: '0' };
  const flushing = await flush(readConfig(env), pino({ level: 'silent' }));
  const app = await startApp(t, deployment.redis, { prefix: PREFIX, env: { PRODUCT_ALERTS: 'on' } });
  let closed: Promise<unknown> | undefined;
  const close = () => {
    closed ??= Promise.all([app.close(), flushing.close()]);
    return closed;
  };
  t.teardown(close);
  return { app, close };
}

export async function liveThrough({ shop, post }: TestApp): Promise<void> {
  for (let i = 0; i < GUESTS; i++) {
    await shop.visit(nameOf(i));
    await shop.visit(nameOf(i));
    await shop.add(nameOf(i));
  }
  await shop.login({ customerId: '7', sessionId: 's-1' });
  await shop.login({ customerId: '7', sessionId: 's-2' }); // a merge
  await shop.visit({ sessionId: 's-2' });
  await post('/profile', { identity: nameOf(3), email: 'ann@shop.example' });
}

/** All rows of each view. Questions are left out: they read only these views. */
export async function viewsOf(clickhouse: Pick<EmbeddedClickHouse, 'url'>, database: string) {
  const views = loadViews().filter(({ name }) => !QUESTIONS.some((question) => question === name));
  const rows = views.map(async (view) => {
    const from = `${database}.${exampleOf(view).replaceAll('2026-03', '2025-03')}`;
    const query = `SELECT * EXCEPT (visitors_sketch) FROM ${from} ORDER BY ALL FORMAT JSONEachRow`;
    return [view.name, await sql(clickhouse.url, query)] as const;
  });
  return Object.fromEntries(await Promise.all(rows));
}

const isShortLived = (key: string) => key.includes(':channel:');

/** Everything in Redis but replies of sender channels, and the times when pending operations are due. */
export async function keysOf(redis: TestRedis) {
  const dump = Object.entries(await dumpRedis(redis, PREFIX));
  const timeless = ([key, value]: (typeof dump)[number]) =>
    key.endsWith(':pending') ? [key, Object.keys(value as object)] : [key, value];
  return Object.fromEntries(dump.filter(([key]) => !isShortLived(key)).map(timeless));
}

/** Milliseconds since 1970 at which each of those keys expires; -1 for never. */
export async function endsOf(t: Test, redis: TestRedis) {
  const ends: Record<string, number> = {};
  for (const node of connectToEach(t, redis.urls))
    for (const key of await node.keys(`${PREFIX}:*`))
      if (!isShortLived(key)) ends[key] = await node.pexpiretime(key);
  return ends;
}

export async function rowsOf(deployment: Deployment, table: string): Promise<number> {
  const query = `SELECT count() FROM ${deployment.database}.${table}`;
  return Number(await sql(deployment.clickhouse.url, query));
}

export const untilFlushed = (deployment: Deployment, visits: number) =>
  until('all is flushed', async () => (await rowsOf(deployment, 'visits')) >= visits);
