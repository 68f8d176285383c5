// What analysts see of a product comes from servers, storefronts and orders; from a publishable key only if nobody else says
// anything of it.

import t from 'tap';
import { runWishmeter } from '../cli/wishmeter.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { ITEM } from '../harness/shop.js';
import { startStores } from '../harness/stores.js';
import { until } from '../harness/until.js';

const KEY = 'pk_test_0123456789';
const ORIGIN = 'https://shop.example';
const BROWSER = { 'x-api-key': KEY, origin: ORIGIN };

t.test('a publishable key renames and reprices no product that somebody else told of', async (t) => {
  const { redis, clickhouse, env } = await startStores(t, ['wishmeter']);
  const app = await startApp(t, redis, {
    prefix: 'wm',
    env: { PUBLISHABLE_KEYS: KEY, ALLOWED_ORIGINS: ORIGIN },
  });
  runWishmeter(t, { args: ['flush'], env });
  const add = async (headers: Record<string, string>, sessionId: string, changes: object) => {
    const body = { identity: { sessionId }, ...ITEM, variantId: '1', currencyCode: 'EUR', ...changes };
    const answer = await app.post('/item/add', body, headers);
    t.equal(answer.status, 200, answer.text);
  };
  const right = {
    productTitle: 'Red shoe',
    productHandle: 'red-shoe',
    price: '79.90',
    inventoryAvailable: false,
  };
  const wrong = { productTitle: 'Evil', productHandle: 'evil', price: '0.01', inventoryAvailable: true };
  await add(TRUSTED, 'server', { productId: '1', ...right });
  await add(BROWSER, 'b-1', { productId: '1', ...wrong });
  await add(BROWSER, 'b-2', { productId: '2', ...wrong });
  const payload = { productId: '1', variantId: '1', ...wrong };
  const event = { identity: { sessionId: 'b-3' }, type: 'add', payload };
  t.equal((await app.post('/event', event, BROWSER)).status, 200);
  // A removal repeats what its item was added with.
  const removal = { identity: { sessionId: 'b-1' }, productId: '1', variantId: '1' };
  t.equal((await app.post('/item/remove', removal, TRUSTED)).json.removed, true);

  const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  const ask = async (query: string) =>
    await (await client.query({ query, format: 'JSONEachRow' })).json<Record<string, unknown>>();
  await add(TRUSTED, 'server', { productId: '3', ...right });
  const last = "SELECT product_id FROM products WHERE product_id = '3'";
  await until('the last one is there', async () => (await ask(last)).length === 1);
  t.same(await ask('SELECT * FROM products ORDER BY product_id LIMIT 2'), [
    { product_id: '1', product_handle: 'red-shoe', product_title: 'Red shoe' },
    { product_id: '2', product_handle: 'evil', product_title: 'Evil' },
  ]);
  t.match(await ask('SELECT * FROM product_variants ORDER BY product_id LIMIT 2'), [
    { product_id: '1', price_now: 79.9, in_stock: false },
    { product_id: '2', price_now: 0.01, in_stock: true },
  ]);
  await add(TRUSTED, 'server', { productId: '2', ...right });
  await until('the server is believed', async () => {
    const [row] = await ask("SELECT product_title FROM products WHERE product_id = '2'");
    return row?.['product_title'] === 'Red shoe';
  });
});
