// What analysts see of requests. Callers without a secret key can not add to it words for device, source and channel, or titles and
// prices of products that somebody else has described; what a server sends is kept, and so is every payload. And openings of shares.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { eraseAsFlusher } from '../flush/fixtures.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';
import { startStores } from '../harness/stores.js';
import { loggedVisits, rowsOf } from '../harness/stream.js';
import { until } from '../harness/until.js';

const PUBLISHABLE = 'pk_0123456789abcdef';
const ORIGIN = 'https://shop.example';
const BROWSER = { 'x-api-key': PUBLISHABLE, origin: ORIGIN };
const redis = await startTestRedis(t);
const env = { SHOPIFY_SECRET: SECRET, PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN };
const app = await startApp(t, redis, { env });
type Post = (path: string, body: unknown) => ReturnType<typeof app.post>;
const CALLERS: Readonly<Record<string, Post>> = {
  'a server': (path, body) => app.post(path, body, TRUSTED),
  'a storefront': (path, body) => postProxied(app, path, '', body),
  'a browser': (path, body) => app.post(path, body, BROWSER),
  anyone: (path, body) => app.post(path, body),
};
const DEVICES = [
  ['desktop', 'desktop'],
  ['Mobile', 'mobile'],
  ['PHONE', 'phone'],
  ['tablet', 'tablet'],
  ['TV', 'tv'],
  ['App', 'app'],
  ['app ', 'app'],
  ['fridge', 'other'],
  ['__proto__', 'other'],
] as const;
let sessions = 0;
for (const [caller, post] of Object.entries(CALLERS)) {
  t.test(`${caller}: the device of a visit`, async (t) => {
    for (const [device, known] of DEVICES) {
      const sessionId = `v-${sessions++}`;
      const answer = await post('/product/visit', {
        identity: { sessionId, device },
        productHandle: sessionId,
      });
      t.equal(answer.status, 200, answer.text);
      const visits = (await loggedVisits(redis, app)).flat();
      const [, , logged] = visits.find(([, handle]) => handle === sessionId) ?? [];
      t.equal(logged, caller === 'a server' ? device : known, device);
    }
  });
  if (caller === 'anyone') continue;

  t.test(`${caller}: device, source and channel of an event`, async (t) => {
    const send = async (device: string, payload: object) => {
      const sessionId = `e-${sessions++}`;
      const answer = await post('/event', { identity: { sessionId, device }, type: 'add', payload });
      t.equal(answer.status, 200, answer.text);
      const row = (await rowsOf(redis, app)).find((one) => one['session_id'] === sessionId) ?? {};
      t.same(JSON.parse(String(row['payload'])), payload, 'the payload is as sent');
      return [row['device'], row['source'], row['channel']];
    };
    const isServer = caller === 'a server';
    t.same(
      await send('fridge', { source: 'tiktok', channel: 'Pigeon' }),
      isServer ? ['fridge', 'tiktok', 'Pigeon'] : ['other', 'other', 'other'],
    );
    t.same(
      await send('Phone', { source: 'PDP', channel: 'link' }),
      isServer ? ['Phone', 'PDP', 'link'] : ['phone', 'pdp', 'Link'],
    );
    t.same(await send('tv', { source: 'pdpSmartSave', channel: 'Email' }), ['tv', 'pdpSmartSave', 'Email']);
    t.same(await send('tv', { source: 5, channel: '' }), ['tv', undefined, undefined]);
    t.same(await send('tv', {}), ['tv', undefined, undefined]);
  });
}
t.test('what is kept of a stranger has the known device, too', async (t) => {
  const identity = { sessionId: 'facts', device: 'fridge', email: 'a@example.org' };
  await postProxied(app, '/event', '', { identity, type: 'add' });
  t.match(await app.shop.exported({ sessionId: 'facts' }), { profile: { device: 'other' } });
});

t.test('in ClickHouse', async (t) => {
  const { redis, clickhouse, env: stores } = await startStores(t, ['wishmeter']);
  const app = await startApp(t, redis, { env: { ...env, ...stores } });
  const log = pino({ level: 'silent' });
  const flushing = await flush(readConfig({ ...stores, KEY_PREFIX: app.prefix }), log);
  t.teardown(() => flushing.close());
  const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  const ask = async (query: string) =>
    await (await client.query({ query, format: 'JSONEachRow' })).json<Record<string, unknown>>();

  t.test('a publishable key renames and reprices no product that somebody else told of', async (t) => {
    const add = async (headers: Record<string, string>, sessionId: string, changes: object) => {
      const body = { identity: { sessionId }, ...ITEM, variantId: '1', currencyCode: 'EUR', ...changes };
      const answer = await app.post('/item/add', body, headers);
      t.equal(answer.status, 200, answer.text);
    };
    const red = { productTitle: 'Red shoe', productHandle: 'red-shoe' };
    const right = { ...red, price: '79.90', inventoryAvailable: false };
    const wrong = { productTitle: 'Evil', productHandle: 'evil', price: '0.01', inventoryAvailable: true };
    await add(TRUSTED, 'server', { productId: '1', ...right });
    await add(BROWSER, 'b-1', { productId: '1', ...wrong });
    await add(BROWSER, 'b-2', { productId: '2', ...wrong });
    const payload = { productId: '1', variantId: '1', ...wrong };
    const event = { identity: { sessionId: 'b-3' }, type: 'add', payload };
    t.equal((await app.post('/event', event, BROWSER)).status, 200);
    // A removal repeats what its item was added with.
    await app.shop.remove({ sessionId: 'b-1' }, { productId: '1', variantId: '1' });
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

  t.test(
    'share_opens has each opening once, export and events have none; an erasure takes them',
    async (t) => {
      const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
      t.teardown(() => connection.disconnect());
      const [owner, other] = [{ sessionId: 'owner' }, { sessionId: 'other' }];
      const person = {
        'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
      };
      const codes: string[] = [];
      for (const who of [owner, other]) {
        await app.shop.add(who);
        const { code } = await app.shop.share(who);
        codes.push(code);
        for (let n = 0; n < 2; n++) await app.get(`/wishlist/share/${code}`, person);
      }
      const opens = () => ask('SELECT * FROM share_opens ORDER BY occurred_at');
      const opened = async () => (await opens()).map(({ share_code }) => share_code);
      await until('four are in ClickHouse', async () => (await opens()).length === 4);
      t.same(await opened(), [codes[0], codes[0], codes[1], codes[1]]);
      t.same(Object.keys((await opens())[0] ?? {}), ['occurred_at', 'share_code']);
      const { events } = await app.shop.exported(owner);
      t.same(
        events.map(({ type }: { type: string }) => type),
        ['add', 'share'],
      );
      await app.shop.erase(owner);
      await until('nothing is left to erase', async () => {
        await eraseAsFlusher(connection, createKeys(app.prefix), client);
        return (await app.figure('pending_erasures')) === 0;
      });
      t.same(await opened(), [codes[1], codes[1]]);
    },
  );
});
