// A child that dies is started again, keeps its address, and nothing that was acknowledged is lost.

import t from 'tap';
import { needsProc } from '../harness/needs.js';
import { apiKey, client, killAndAwaitNext, sql, started } from './started.js';
import { tempDir, until } from './wishmeter.js';

const CHILDREN = [
  /^wishmeter serve/,
  /^wishmeter flush/,
  /^wishmeter clickhouse/,
  /redis-server|valkey-server/,
];

t.test('each child that is killed comes back, and nothing is lost', needsProc(), async (t) => {
  const dir = await tempDir(t);
  const { url, clickhouseUrl, dashboardUrl, stop } = await started(t, dir);
  const shop = client(url, await apiKey(dir));
  let events = 0;
  for (const title of CHILDREN) {
    await killAndAwaitNext(dir, title);
    await until(`served again after ${title}`, async () => {
      const answer = await shop.visit('s-1', `after ${title}`).catch(() => undefined);
      return answer?.status === 200;
    });
    await until('an event is taken', async () => {
      const answer = await shop.event('s-1', 'add', { productId: '1' }).catch(() => undefined);
      return answer?.status === 200;
    });
    events += 1;
    await until(`${events} events in ClickHouse after ${title}`, async () => {
      const count = await sql(clickhouseUrl, 'SELECT count() FROM events').catch(() => '');
      return Number(count) >= events;
    });
    t.equal(Number(await sql(clickhouseUrl, 'SELECT count() FROM events')), events, `${title}`);
  }
  await killAndAwaitNext(dir, /^wishmeter dashboard/);
  await until(
    'the dashboard is shown again',
    async () => (await fetch(dashboardUrl).catch(() => undefined))?.ok,
  );
  t.equal((await stop()).code, 0);
});
