// A dashboard over the small shop of test/clickhouse/small-world.ts, asked as the user that `start` lets it be.

import type { ClickHouseClient } from '@clickhouse/client';
import { pino } from 'pino';
import type { Test } from 'tap';
import { type DashboardOptions, startDashboard } from '../../../src/extras/dashboard/server.js';
import type { ClickHouseSpec } from '../../../src/extras/embedded/clickhouse/start.js';
import { asDashboard } from '../../../src/extras/embedded/clickhouse/users.js';
import { dateOf, makeSmallWorld } from '../../clickhouse/small-world.js';
import { connectToClickHouse, startReadable } from '../../harness/clickhouse.js';
import type { TestRedis } from '../../harness/redis.js';

export const TOKEN = '0123456789abcdef';
export const MONTH = { from: dateOf(1), to: dateOf(31) };
export const RANGE = `from=${MONTH.from}&to=${MONTH.to}`;

export interface Fixtures extends Awaited<ReturnType<typeof dashboardOfShop>> {
  readonly redis: TestRedis;
}

export async function openDashboard(
  t: Test,
  clickhouse: ClickHouseClient,
  options: Partial<DashboardOptions> = {},
) {
  const log = pino({ level: 'silent' });
  const dashboard = await startDashboard({
    host: '127.0.0.1',
    port: 0,
    token: TOKEN,
    clickhouse,
    log,
    timeZone: async () => 'UTC',
    servicePort: 9_123,
    basePath: '/api',
    images: { url: 'https://shop.example', imageHosts: ['shop.example', '*.cdn.example'] },
    productUrl: 'https://shop.example/products/{handle}?variant={variant}',
    wrongMs: 1,
    ...options,
  });
  t.teardown(() => dashboard.close());
  const url = `http://127.0.0.1:${dashboard.port}`;
  const post = (path: string, body: string, headers: Record<string, string> = {}) =>
    fetch(url + path, { method: 'POST', body, headers });
  const logIn = (token = TOKEN, headers: Record<string, string> = {}) =>
    post('/login', JSON.stringify({ token }), headers);
  return {
    url,
    post,
    logIn,
    logOut: (headers: Record<string, string>) => post('/logout', '', headers),
    session: () => cookieFor(url),
  };
}

export const foreignHeaders = (url: string): Record<string, string>[] => [
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
  // Browsers leave Sec-Fetch-Site out where the address is neither https nor of this machine.
  { origin: 'https://evil.example' },
  { origin: `http://evil.${new URL(url).host}` },
  { origin: 'null' },
];

export const cookieOf = (header: string | null) => (header ?? '').split(';')[0] as string;

export async function cookieFor(url: string, token = TOKEN): Promise<string> {
  const login = await fetch(`${url}/login`, { method: 'POST', body: JSON.stringify({ token }) });
  return cookieOf(login.headers.get('set-cookie'));
}

export async function dashboardOfShop(t: Test, spec: Partial<ClickHouseSpec> = {}) {
  const server = await startReadable(t, 'shop', spec);
  const client = connectToClickHouse(t, server.url, 'shop');
  await makeSmallWorld(client);
  const reader = connectToClickHouse(t, asDashboard(server.url), 'shop');
  return {
    ...(await openDashboard(t, reader)),
    reader,
    clickhouseUrl: server.url,
    client,
    get pid() {
      return server.pid;
    },
  };
}
