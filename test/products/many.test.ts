// A product with very many wishers: its webhook is answered before they are told, a process that ends leaves the rest to
// another one, visits go on beside it, and each is told once.
// FAULTS=full: 100,000 of them.

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { Wishers } from '../../src/wishlist/wishers.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { contentOf, storedItem } from '../harness/samples.js';
import { openStore } from '../harness/store.js';
import { until } from '../harness/until.js';
import { ALERTS } from './fixtures.js';

const WISHERS = process.env['FAULTS'] === 'full' ? 100_000 : 3_000;
const PAGE = 1_000;

t.test(`${WISHERS} wishers`, { timeout: 600_000 }, async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { prefix: 'many', env: ALERTS });
  const client = connectTo(t, redis.url);
  const keys = createKeys(app.prefix);
  const store = await openStore(t, redis, { keyPrefix: app.prefix });
  const wishers = new Wishers(store);
  const item = storedItem(
    'i',
    { ...contentOf('1'), variantId: '2', price: '80.00' },
    '2026-03-01T00:00:00.000Z',
  );
  for (let from = 0; from < WISHERS; from += PAGE) {
    const pipeline = client.pipeline();
    const ids = Array.from({ length: PAGE }, (_, i) => `${(from + i).toString(36)}.sX${from + i}`);
    for (const id of ids) pipeline.hset(keys.items(id), '1:2', item);
    await pipeline.exec();
    await Promise.all(ids.map((id) => wishers.add('1:2', id)));
  }
  await wishers.close();

  /** Profiles that were told, one for each alert in the stream. */
  const alerted = async () => {
    const profiles: string[] = [];
    for (let from = '-'; ; ) {
      const page = await client.xrange(keys.events(0), from, '+', 'COUNT', PAGE);
      for (const [, [, , , lines = '']] of page)
        for (const line of lines.trim().split('\n')) {
          const { origin, profile_id } = JSON.parse(line) as { origin: string; profile_id: string };
          if (origin === 'alert') profiles.push(profile_id);
        }
      if (page.length < PAGE) return profiles;
      from = `(${page.at(-1)?.[0]}`;
    }
  };
  const told = async () => (await alerted()).length;
  const body = {
    ...{ id: 1, handle: 'p-1', title: 'A product', updated_at: '2026-03-02T00:00:00Z' },
    variants: [{ id: 2, price: '70.00', inventory_management: null }],
  };
  t.equal((await app.post('/webhook/products', body, TRUSTED)).status, 200);
  t.ok((await told()) < WISHERS, 'answered before all are told');
  await app.close();
  t.ok((await told()) < WISHERS, 'a process that ends leaves the rest to another');
  const next = await startApp(t, redis, {
    prefix: app.prefix,
    env: { ...ALERTS, VISIT_LOG: 'off' },
    timing: { productLookMs: 100 },
  });
  let visits = 0;
  const untilStruckOut = () =>
    until(
      'it is struck out',
      async () => {
        await next.shop.visit({ sessionId: 'beside' });
        visits++;
        return (await client.exists(keys.products)) === 0;
      },
      300_000,
    );
  await untilStruckOut();
  t.ok(visits > 1, `${visits} visits beside it`);
  t.same([await told(), new Set(await alerted()).size], [WISHERS, WISHERS], 'each once');
  t.equal((await next.post('/webhook/products', body, TRUSTED)).status, 200);
  await untilStruckOut();
  t.equal(await told(), WISHERS, 'a repeat tells nobody');
});
