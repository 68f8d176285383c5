// The whole way of a price drop, each part a process as in production: a product is put, its wisher's delivery arrives with a
// good signature, analysts see it and no wish more, an export has it, and an erasure takes it.

import { Ajv } from 'ajv';
import t from 'tap';
import { runWishmeter, wishmeter } from '../cli/wishmeter.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startStores } from '../harness/stores.js';
import { until } from '../harness/until.js';
import { startTool } from '../receivers/fixtures.js';
import { ALERTS, put } from './fixtures.js';

const SETTINGS = { ...ALERTS, RECEIVERS_PRIVATE: 'allow', ERASURE_INTERVAL_S: '60' };

t.test('the whole way', async (t) => {
  const { redis, clickhouse, env } = await startStores(t, ['wishmeter']);
  const app = await startApp(t, redis, {
    prefix: 'wm',
    env: { ...SETTINGS, CLICKHOUSE_URL: env.CLICKHOUSE_URL },
  });
  const settings = { ...env, ...SETTINGS };
  runWishmeter(t, { args: ['flush'], env: settings });
  runWishmeter(t, { args: ['deliver'], env: settings });
  const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  const rows = async (query: string) => {
    const answer = await client.query({ query, format: 'JSONEachRow' });
    return await answer.json<Record<string, unknown>>();
  };
  const [tool, personal] = [await startTool(t), await startTool(t)];
  const receiver = (url: string, includePersonal: boolean) =>
    app.post('/receivers', { url, types: ['priceDrop', 'backInStock'], includePersonal }, TRUSTED);
  const made = (await receiver(tool.url, false)).json;
  [tool.secret, personal.secret] = [made.secret, (await receiver(personal.url, true)).json.secret];

  const ids = { customerId: '7', sessionId: 's-1' };
  const item = {
    productId: '1001',
    variantId: '2002',
    price: '79.90',
    currencyCode: 'EUR',
    inventoryAvailable: false,
  };
  await app.shop.add({ sessionId: 's-1', email: 'ann@shop.example' }, item);
  await app.shop.login(ids);
  const { profileId } = await app.shop.add(
    { sessionId: 's-2' },
    { ...item, variantId: null, price: '60.00' },
  );

  await t.test('its wishers are sent it once, each receiver what it may have', async (t) => {
    t.same(await put(app, '1001', { variantId: '2002', price: '59.90', currencyCode: 'EUR' }), [2, 2]);
    await until('four deliveries', () => tool.delivered.length >= 4 && personal.delivered.length >= 4);
    const { webhooks } = (await app.get('/openapi.json')).json;
    const schema = webhooks.alert.post.requestBody.content['application/json'].schema;
    for (const { body, id } of [...tool.delivered, ...personal.delivered]) {
      const ajv = new Ajv({ strict: false });
      t.ok(ajv.validate(schema, body), ajv.errorsText());
      t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
    const drops = tool.delivered.filter(({ body }) => body.type === 'priceDrop').map(({ body }) => body);
    const common = {
      productId: '1001',
      productHandle: 'red-shoe',
      productTitle: 'Red shoe',
      price: '59.90',
      currencyCode: 'EUR',
    };
    const byCustomer = drops.find(({ data }) => data.customerId === '7');
    t.same(byCustomer?.data, {
      ...{ profileId: byCustomer?.data.profileId, ...ids },
      ...{ ...common, variantId: '2002', priceBefore: '79.90' },
    });
    t.same(drops.find(({ data }) => data.customerId === null)?.data, {
      ...{ profileId, customerId: null, sessionId: 's-2' },
      ...{ ...common, variantId: null, priceBefore: '60.00' },
    });
    t.same(Object.keys(byCustomer ?? {}), ['type', 'timestamp', 'data']);
    t.same(Object.keys(byCustomer?.data), [
      ...['profileId', 'customerId', 'sessionId', 'productId', 'variantId', 'productHandle', 'productTitle'],
      ...['priceBefore', 'price', 'currencyCode'],
    ]);
    const told = personal.delivered.find(({ body }) => body.data.customerId === '7');
    t.match(told?.body.data, { email: 'ann@shop.example', firstName: null, lastName: null });
    t.equal(new Set(tool.delivered.map(({ id }) => id)).size, 4);
    t.same([...tool.faults, ...personal.faults], []);
  });

  await t.test('analysts see it in product_alerts, and no wish more', async (t) => {
    t.same(
      await rows('SELECT * EXCEPT (occurred_at, profile_id) FROM product_alerts ORDER BY price_before, type'),
      [
        ['backInStock', null, 's-2', '', 60],
        ['priceDrop', null, 's-2', '', 60],
        ['backInStock', '7', 's-1', '2002', 79.9],
        ['priceDrop', '7', 's-1', '2002', 79.9],
      ].map(([type, customer_id, session_id, variant_id, price_before]) => ({
        ...{ type, customer_id, session_id, product_id: '1001', variant_id, product_handle: 'red-shoe' },
        ...{ price_before, price: 59.9, currency: 'EUR' },
      })),
    );
    t.same(await rows('SELECT type, toUInt32(count()) AS n FROM events GROUP BY type'), [
      { type: 'add', n: 2 },
    ]);
    t.same(await rows('SELECT DISTINCT step FROM steps_stored'), [{ step: 'add' }]);
    t.same(await rows('SELECT toUInt32(sum(events)) AS n FROM events_per_day'), [{ n: 2 }]);
    t.same(await rows('SELECT toUInt32(adds) AS adds FROM top_products'), [{ adds: 2 }]);
  });

  await t.test('an export has it, beside the events', async (t) => {
    const { events, productAlerts } = await app.shop.exported({ customerId: '7' });
    t.same(
      events.map(({ type }: { type: string }) => type),
      ['add'],
    );
    t.match(productAlerts, [
      { type: 'priceDrop', price: 59.9, price_before: 79.9, customer_id: '7' },
      { type: 'backInStock', price: 59.9 },
    ]);
  });

  await t.test('replay sends it again under the same id', async (t) => {
    const before = tool.delivered.splice(0).map(({ id }) => id);
    const asked = { args: ['receivers', 'replay', made.id, '--since', '1h'], env: settings };
    t.equal((await wishmeter(asked)).code, 0);
    await until('four deliveries', () => tool.delivered.length >= 4);
    t.same(tool.delivered.map(({ id }) => id).sort(), before.sort());
  });

  await t.test('an erasure takes it', async (t) => {
    await app.shop.erase({ customerId: '7' });
    t.equal((await app.get('/profile?customerId=7', TRUSTED)).status, 404);
    t.same((await app.shop.exported({ sessionId: 's-2' })).productAlerts.length, 2);
  });
});
