// What analysts see of an order after its visitor has logged in: purchases_by_visitor has the row under the profile that
// the visitor has by then.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { readConfig } from '../../src/config.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { startStores } from '../harness/stores.js';
import { until } from '../harness/until.js';
import { deliver, SECRET, shopifyOrder } from './orders.js';

type Who = { customerId?: string; sessionId?: string };

t.test('orders and logins', async (t) => {
  const { redis, clickhouse, env } = await startStores(t, ['wishmeter']);
  const app = await startApp(t, redis, { env: { ...env, SHOPIFY_SECRET: SECRET } });
  const flushing = await flush(
    readConfig({ ...env, KEY_PREFIX: app.prefix, EVENT_SHARDS: '1' }),
    pino({ level: 'silent' }),
  );
  t.teardown(() => flushing.close());
  const client = createClickHouse(clickhouse.url, 'wishmeter');
  t.teardown(() => client.close());
  const query = async <T>(sql: string) =>
    (await client.query({ query: sql, format: 'JSONEachRow' })).json<T>();

  const visit = async (identity: Who): Promise<string> =>
    (await app.post('/product/visit', { identity, productHandle: 'x' }, TRUSTED)).json.profileId;
  const login = async (customerId: string, sessionId: string): Promise<string> =>
    (await app.post('/profile/merge', { identity: { customerId, sessionId } }, TRUSTED)).json.profileId;

  let visitors = 100_000;
  type Case = (ids: { customer: number; session: string; other: string }) => Promise<string>;
  const order = async (who: { customer?: number; session?: string }) => {
    const made = shopifyOrder(who, [{ product_id: 1, variant_id: 2 }]);
    const { status } = await deliver(app, made);
    if (status !== 200) throw new Error(`order: ${status}`);
    ids.push(String(made.id));
  };
  const ids: string[] = [];
  const cases: Record<string, Case> = {
    'a guest is unknown, and logs in as an unknown customer': async ({ customer, session }) => {
      await order({ session });
      return login(String(customer), session);
    },
    'a guest is unknown, and logs in as a known customer': async ({ customer, session }) => {
      await visit({ customerId: String(customer) });
      await order({ session });
      return login(String(customer), session);
    },
    'a guest is known, checks out under an address of an unknown customer, and logs in as that one': async ({
      customer,
      session,
    }) => {
      await visit({ sessionId: session });
      await order({ customer, session });
      return login(String(customer), session);
    },
    'a guest is known, checks out under the address of a known customer, and logs in as that one': async ({
      customer,
      session,
    }) => {
      await visit({ sessionId: session });
      await visit({ customerId: String(customer) });
      await order({ customer, session });
      return login(String(customer), session);
    },
    'a guest is known, checks out under an address, and logs in as another customer': async ({
      customer,
      session,
      other,
    }) => {
      await visit({ sessionId: session });
      await order({ customer, session });
      return login(other, session);
    },
    'neither is known, and both log in': async ({ customer, session }) => {
      await order({ customer, session });
      return login(String(customer), session);
    },
    'neither is known, and the customer logs in with another session': async ({ customer, session }) => {
      await order({ customer, session });
      await visit({ sessionId: `${session}-phone` });
      return login(String(customer), `${session}-phone`);
    },
    'a customer is unknown, and logs in with a known session': async ({ customer, session }) => {
      await visit({ sessionId: session });
      await order({ customer });
      return login(String(customer), session);
    },
    'on a shared device the row stays with the one who had bought': async ({ customer, session, other }) => {
      const bought = await login(String(customer), session);
      await order({ customer, session });
      const next = await login(other, session);
      t.not(next, bought);
      return bought;
    },
    'on a shared device the next one to buy has the row': async ({ customer, session, other }) => {
      await login(String(customer), session);
      const next = await login(other, session);
      await order({ customer, session });
      return next;
    },
  };
  const expected: Record<string, string> = {};
  for (const [name, act] of Object.entries(cases)) {
    const customer = ++visitors;
    const profileId = await act({ customer, session: `session-${customer}`, other: `${customer}7` });
    expected[ids.at(-1) as string] = `${name}: ${profileId}`;
  }
  await until('all is in ClickHouse', async () => {
    const [row] = await query<{ n: string }>('SELECT count() AS n FROM purchases');
    return Number(row?.n) === ids.length;
  });
  await until('merges are, too', async () => {
    const [row] = await query<{ n: string }>(
      "SELECT count() AS n FROM events_stored FINAL WHERE origin = 'merge'",
    );
    return Number(row?.n) >= 4;
  });

  const rows = await query<{ order_id: string; profile_id: string }>(
    'SELECT order_id, profile_id FROM purchases_by_visitor ORDER BY order_id',
  );
  t.same(
    Object.fromEntries(
      rows.map(({ order_id, profile_id }) => [
        order_id,
        `${expected[order_id]?.replace(/: [^:]*$/, '')}: ${profile_id}`,
      ]),
    ),
    expected,
  );
});
