// An embedded ClickHouse, empty or with shown and hidden tables, and requests by its client and by plain
// HTTP.

import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import type { ClickHouseSpec } from '../../../src/extras/embedded/clickhouse/start.js';
import { forFetch, select, startTestClickHouse } from '../../harness/clickhouse.js';
import type { Scope } from '../../harness/redis.js';

type Texts = Readonly<Record<string, string>>;
type ClientOptions = Parameters<typeof createClient>[0];

/** Requests are the service user's, unless they name another. Everything ends with the test. */
export async function openClickHouse(t: Scope, spec: Partial<ClickHouseSpec> = {}) {
  const server = await startTestClickHouse(t, spec);
  const { origin, headers: credentials } = forFetch(server.url);
  const connect = (more: ClientOptions = {}) =>
    createClient({ url: server.url, log: { level: ClickHouseLogLevel.OFF }, ...more });
  const client = connect();
  t.teardown(() => client.close());

  const http = async (params: Record<string, string>, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    const named = headers.has('authorization') || headers.has('x-clickhouse-user') || 'user' in params;
    if (!named) for (const [name, value] of Object.entries(credentials)) headers.set(name, value);
    const answer = await fetch(`${origin}/?${new URLSearchParams(params)}`, { ...init, headers });
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  };
  const post = (
    params: Record<string, string>,
    body: string | Buffer = '',
    headers: Record<string, string> = {},
  ) => http(params, { method: 'POST', body, headers });
  /** Without credentials: as the analyst. */
  const bare = async (body: string, params: Texts = {}, headers: Texts = {}) => {
    const answer = await fetch(`${origin}/?${new URLSearchParams(params)}`, {
      method: 'POST',
      body,
      headers,
    });
    return { status: answer.status, bytes: Buffer.from(await answer.arrayBuffer()) };
  };
  const rows = <T>(query: string, by: ClickHouseClient = client) => select<T>(by, query);
  const one = async (sql: string) => (await post({}, sql)).text.trimEnd();

  let tables = 0;
  const table = async (columns = 'id UInt32, s String', settings = ''): Promise<string> => {
    const name = `t${++tables}`;
    const query = `CREATE TABLE ${name} (${columns}) ENGINE = MergeTree ORDER BY id ${settings}`;
    await client.command({ query });
    return name;
  };
  return { server, origin, credentials, connect, client, http, post, bare, rows, one, table };
}

export const analyst = { 'x-clickhouse-user': 'analyst' };

/** `shop.shown` has the rows (1, x) and (2, y); `shop.hidden` and `other.shown` are not shown. */
export async function openShop(t: Scope) {
  const tables = ['shown', 'view_of_shown', 'shown_from'];
  const clickhouse = await openClickHouse(t, { readable: { database: 'shop', tables } });
  const { client, credentials, http } = clickhouse;
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
  const values = ['x', 'y'].map((s, i) => ({ a: i + 1, s }));
  await client.insert({ table: 'shop.shown', values, format: 'JSONEachRow' });
  return {
    ...clickhouse,
    users: { analyst, service: credentials },
    post: (headers: Texts, sql: string, params: Texts = {}) =>
      http(params, { method: 'POST', body: sql, headers }),
    get: (headers: Texts, query: string, params: Texts = {}) => http({ query, ...params }, { headers }),
  };
}
