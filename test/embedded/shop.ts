// An embedded ClickHouse with tables that its analyst is shown and tables that it is not, and requests of both users.

import type { Test } from 'tap';
import { openWorld } from './world.js';

type Texts = Readonly<Record<string, string>>;

export const analyst = { 'x-clickhouse-user': 'analyst' };

/** `shop.shown` has the rows (1, x) and (2, y); `shop.hidden` and `other.shown` are not shown. */
export async function openShop(t: Pick<Test, 'teardown'>) {
  const world = await openWorld(t, {
    readable: { database: 'shop', tables: ['shown', 'view_of_shown', 'shown_from'] },
  });
  const { client, credentials, http } = world;
  await client.command({ query: 'CREATE DATABASE shop' });
  for (const query of [
    'CREATE TABLE shop.shown (a UInt32, s String) ENGINE = MergeTree ORDER BY a',
    'CREATE TABLE shop.hidden (a UInt32, s String) ENGINE = MergeTree ORDER BY a',
    'CREATE VIEW shop.view_of_shown AS SELECT a FROM shop.shown SETTINGS max_threads = 1',
    'CREATE VIEW shop.shown_from AS SELECT a FROM shop.shown WHERE a >= {a: UInt32}',
    'CREATE DATABASE other',
    'CREATE TABLE other.shown (a UInt32) ENGINE = MergeTree ORDER BY a',
  ])
    await client.command({ query });
  await client.insert({
    table: 'shop.shown',
    values: [
      { a: 1, s: 'x' },
      { a: 2, s: 'y' },
    ],
    format: 'JSONEachRow',
  });
  return {
    ...world,
    users: { analyst, service: credentials },
    post: (headers: Texts, sql: string, params: Texts = {}) =>
      http(params, { method: 'POST', body: sql, headers }),
    get: (headers: Texts, query: string, params: Texts = {}) => http({ query, ...params }, { headers }),
  };
}
