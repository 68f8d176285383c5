// Whose an order is, and what becomes of it: what was known before, whom the order names, and what follows (a login, another
// session, a shared device) — then the export, the analysts' views, and each way to erase. All histories run side by side,
// through a real flusher and ClickHouse; nothing in one may touch another.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { readConfig } from '../../src/config.js';
import { visitStreams } from '../../src/flush/backlog.js';
import { eraseWaiting } from '../../src/flush/eraser.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { fixedShards } from '../flush/fixtures.js';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { dumpRedis } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { deliver, listed, orderOf, SECRET, sessionNote, switchTo } from './orders.js';

type Known = 'nobody' | 'customer' | 'session' | 'both' | 'linked' | "another's";
type Named = 'customer' | 'session' | 'both';
type After = 'nothing' | 'login' | 'login of another' | 'second session' | 'shared device';
/** Whose the row is in the end: the profile of the customer, of the other customer, or of the session. */
type Owner = 'customer' | 'other' | 'session';
type ErasedBy = 'customer' | 'session' | 'address' | 'webhook';

/** `linked` and `another's` say whose the session is. */
const HISTORIES: readonly [known: Known, named: Named, after: After, owner: Owner, erasedBy: ErasedBy][] = [
  ['nobody', 'customer', 'nothing', 'customer', 'customer'],
  ['nobody', 'both', 'login', 'customer', 'address'],
  ['nobody', 'session', 'login of another', 'other', 'session'],
  ['customer', 'session', 'login', 'customer', 'webhook'],
  ['customer', 'both', 'second session', 'customer', 'session'],
  ['session', 'both', 'nothing', 'session', 'address'],
  ['session', 'both', 'shared device', 'customer', 'webhook'],
  ['session', 'customer', 'login of another', 'customer', 'customer'],
  ['session', 'session', 'second session', 'session', 'address'],
  ['both', 'both', 'login of another', 'other', 'customer'],
  ['both', 'both', 'login', 'customer', 'session'],
  ['both', 'customer', 'shared device', 'customer', 'address'],
  ['linked', 'session', 'shared device', 'customer', 'customer'],
  ['linked', 'both', 'login of another', 'customer', 'webhook'],
  ["another's", 'both', 'login', 'other', 'address'],
  ["another's", 'session', 'nothing', 'other', 'session'],
  ["another's", 'customer', 'second session', 'customer', 'webhook'],
];

const CASES = HISTORIES.map(([known, named, after, owner, erasedBy], i) => ({
  name: `known: ${known}; the order names ${named}; then ${after}; erased by ${erasedBy}`,
  known,
  named,
  after,
  owner,
  erasedBy,
  customer: { customerId: `71${100 + i}001` },
  other: { customerId: `71${100 + i}002` },
  session: { sessionId: `order-${100 + i}-session` },
  email: `order-${100 + i}@histories.example`,
  orderId: `71${100 + i}009`,
}));
type Case = (typeof CASES)[number];

eachRedis(t, async (t, redis) => {
  const cases = redis.urls.length === 1 ? CASES : CASES.filter((_, i) => i % 3 === 0);
  const forEach = (act: (one: Case) => Promise<void>) => Promise.all(cases.map(act));
  const clickhouse = await startTestClickHouse({ databases: ['wishmeter'] });
  t.teardown(() => clickhouse.stop());
  const stores = { REDIS_URL: redis.urls.join(','), CLICKHOUSE_URL: clickhouse.url };
  const env = { ...stores, BUCKETS: '64', FLUSH_INTERVAL_MS: '50', SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env, timing: { compliancePollMs: 50 } });
  const log = pino({ level: 'silent' });
  const flushing = await flush(readConfig({ ...env, KEY_PREFIX: app.prefix, EVENT_SHARDS: '1' }), log);
  t.teardown(() => flushing.close());
  const client = createClickHouse(clickhouse.url, 'wishmeter');
  t.teardown(() => client.close());
  const ask = async <Row>(query: string): Promise<Row[]> =>
    (await client.query({ query, format: 'JSONEachRow' })).json<Row>();

  const { erase, exported, login } = app.shop;
  const profileOf = async (who: Record<string, string>): Promise<string> => (await exported(who)).profileId;
  const wish = (identity: object) => app.shop.add(identity, { productId: '11', variantId: '21' });

  await switchTo(app, true);
  await forEach(async ({ known, customer, other, session }) => {
    if (known === 'linked') await login({ ...customer, ...session });
    if (known === "another's") {
      await login({ ...other, ...session });
      await wish(other);
    }
    if (!['nobody', 'session'].includes(known)) await wish(customer);
    if (['session', 'both'].includes(known)) await wish(session);
  });

  t.test('an order empties the wishlist of each visitor whom it names, and links none', async (t) => {
    await forEach(async ({ name, named, customer, session, email, orderId }) => {
      const profiles = () => Promise.all([profileOf(customer), profileOf(session)]);
      const before = await profiles();
      const buyer =
        named === 'session' ? null : { id: Number(customer.customerId), email, state: 'disabled' };
      const note_attributes = named === 'customer' ? [] : sessionNote(session.sessionId);
      const lines = [{ product_id: 11, variant_id: 21, price: '10.00' }];
      const order = orderOf(buyer, lines, { id: Number(orderId), email, note_attributes });
      for (let i = 0; i < 2; i++) t.equal((await deliver(app, order)).status, 200, name);
      t.same(await profiles(), before, name);
      if (named !== 'session') t.same(await listed(app, customer), [], name);
      if (named !== 'customer') t.same(await listed(app, session), [], name);
    });
  });

  t.test('each visitor whom an order names finds its purchase in the export', async (t) => {
    await until('all orders are in ClickHouse', async () => {
      const [row] = await ask<{ n: string }>('SELECT count() AS n FROM purchases');
      return Number(row?.n) === cases.length;
    });
    await forEach(async ({ name, named, customer, session, orderId }) => {
      const expected = [{ order_id: orderId }];
      if (named !== 'session') t.match((await exported(customer)).purchases, expected, name);
      if (named !== 'customer') t.match((await exported(session)).purchases, expected, name);
    });
  });

  t.test('after what follows, analysts see the purchase under the present profile', async (t) => {
    const expected = new Map<string, string>();
    await forEach(async (one) => {
      const { after, customer, other, session } = one;
      if (after === 'login' || after === 'shared device') await login({ ...customer, ...session });
      if (after === 'login of another' || after === 'shared device') await login({ ...other, ...session });
      if (after === 'second session') {
        const second = { sessionId: `${session.sessionId}-2` };
        await wish(second);
        await login({ ...customer, ...second });
      }
      expected.set(one.orderId, await profileOf(one[one.owner] as Record<string, string>));
    });
    const seen = () =>
      ask<{ order_id: string; profile_id: string }>('SELECT order_id, profile_id FROM purchases_by_visitor');
    await until('every merge is in ClickHouse', async () =>
      (await seen()).every(({ order_id, profile_id }) => expected.get(order_id) === profile_id),
    ).catch(() => {});
    for (const { order_id, profile_id } of await seen())
      t.equal(
        profile_id,
        expected.get(order_id),
        String(CASES.find(({ orderId }) => orderId === order_id)?.name),
      );
  });

  t.test('once erased, no row of ClickHouse and no key of Redis names who was erased', async (t) => {
    await forEach(async ({ customer, session, email, erasedBy }) => {
      if (erasedBy !== 'webhook')
        return void (await erase({ customer, session, address: { email } }[erasedBy]));
      const redact = { shop_id: 1, shop_domain: 'x', customer: { id: Number(customer.customerId), email } };
      const headers = { ...TRUSTED, 'x-shopify-webhook-id': email };
      t.equal((await app.post('/webhook/customers/redact', redact, headers)).status, 200);
    });
    const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
    t.teardown(() => connection.disconnect());
    const keys = createKeys(app.prefix);
    const shards = fixedShards(1);
    const streams = await visitStreams(connection, keys);
    const spec = { redis: connection, keys, clickhouse: client, shards, visitStreams: streams, log };
    await until('all is erased from ClickHouse, and every webhook is done', async () => {
      await eraseWaiting(spec, 0);
      const figures = await app.figures();
      const isOpen = /^wishmeter_requests_open\{kind="customers\/redact"\} [1-9]/m.test(figures);
      return !isOpen && /^wishmeter_pending_erasures 0$/m.test(figures);
    });
    const rows = await ask<{ customer_id: string | null; session_id: string | null }>(
      'SELECT customer_id, session_id FROM purchases UNION ALL SELECT customer_id, session_id FROM events',
    );
    const held = JSON.stringify(await dumpRedis(redis, app.prefix));
    await forEach(async ({ name, named, customer, session, erasedBy }) => {
      const isSession = erasedBy === 'session' || (erasedBy === 'address' && named === 'session');
      const nothing = { items: [], visits: {}, shares: [], events: [], visitLog: [], purchases: [] };
      t.match(await exported(isSession ? session : customer), nothing, name);
      const id = isSession ? session.sessionId : customer.customerId;
      const naming = rows.filter((row) => row.customer_id === id || row.session_id === id);
      t.same(naming, [], `${name}: ClickHouse`);
      // A session that left a customer is remembered as one that is not that customer's any more.
      if (!isSession) t.notOk(held.includes(`:${id}"`), `${name}: Redis`);
    });
  });
});
