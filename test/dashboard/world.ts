// A dashboard over the small world of test/clickhouse/small-world.ts, asked as the user that `start` lets it be.

import type { ClickHouseClient } from '@clickhouse/client';
import { pino } from 'pino';
import type { Test } from 'tap';
import { ANALYST_TABLES } from '../../src/clickhouse/analyst-tables.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { startDashboard } from '../../src/dashboard/server.js';
import type { ClickHouseSpec } from '../../src/embedded/clickhouse.js';
import { asDashboard } from '../../src/embedded/clickhouse-users.js';
import { dateOf, makeSmallWorld } from '../clickhouse/small-world.js';
import { startTestClickHouse } from '../harness/clickhouse.js';

export const TOKEN = '0123456789abcdef';
export const MONTH = { from: dateOf(1), to: dateOf(31) };

export interface DashboardWorld {
  /** Without a slash at its end. */
  readonly url: string;
  /** With the service's user. */
  readonly clickhouseUrl: string;
  /** The service's own client, to compare with. */
  readonly client: ClickHouseClient;
  /** The header `Cookie` after a login. */
  logIn(): Promise<string>;
  /** Takes ClickHouse away. */
  stopClickHouse(): Promise<void>;
}

/** @param isEmpty a shop without any visitor */
export async function dashboardWorld(
  t: Test,
  isEmpty = false,
  spec: Partial<ClickHouseSpec> = {},
): Promise<DashboardWorld> {
  const server = await startTestClickHouse({
    ...spec,
    databases: ['shop'],
    readable: { database: 'shop', tables: ANALYST_TABLES },
  });
  let isUp = true;
  const stopClickHouse = async () => {
    if (isUp) await server.stop();
    isUp = false;
  };
  t.teardown(stopClickHouse);
  const client = createClickHouse(server.url, 'shop');
  t.teardown(() => client.close());
  if (!isEmpty) await makeSmallWorld(client);
  const reader = createClickHouse(asDashboard(server.url), 'shop');
  t.teardown(() => reader.close());
  const dashboard = await startDashboard({
    host: '127.0.0.1',
    port: 0,
    token: TOKEN,
    clickhouse: reader,
    log: pino({ level: 'silent' }),
    wrongMs: 1,
  });
  t.teardown(() => dashboard.close());
  const url = `http://127.0.0.1:${dashboard.port}`;
  const logIn = async () => {
    const answer = await fetch(`${url}/login`, { method: 'POST', body: JSON.stringify({ token: TOKEN }) });
    return (answer.headers.get('set-cookie') as string).split(';')[0] as string;
  };
  return { url, clickhouseUrl: server.url, client, logIn, stopClickHouse };
}
