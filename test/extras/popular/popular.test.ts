// GET /popular: whom it counts, what it refuses, and how it goes on while ClickHouse is away.

import t, { type Test } from 'tap';
import { eraseRows } from '../../../src/clickhouse/erase.js';
import { newEventId } from '../../../src/events/event-id.js';
import { encodeMerge } from '../../../src/events/row.js';
import { popularWith } from '../../../src/extras/popular/extra.js';
import { SHARED, startDatabases } from '../../clickhouse/databases.js';
import { eventRow } from '../../flush/fixtures.js';
import { type AppSettings, startApp, TRUSTED } from '../../harness/app.js';
import { BROWSER, proxied, SHOPPERS } from '../../harness/app-proxy.js';
import { startProxy } from '../../harness/proxy.js';
import { startTestRedis } from '../../harness/redis.js';
import { until } from '../../harness/until.js';

const DAY_MS = 86_400_000;
const LOOKS = { everyMs: 20, again: { firstMs: 20, longestMs: 20 }, deadlineMs: 60_000 };
const redis = await startTestRedis(t);
const { url, own, emptied, insert } = await startDatabases(t);

/** An event of `visitor` about `product`, so many days ago. */
const event = (visitor: string, type: string, product: string, daysAgo = 1, changes: object = {}) =>
  eventRow({
    ...{ type, profile_id: visitor, product_id: product, product_handle: `handle-${product}` },
    ...{ occurred_at: new Date(Date.now() - daysAgo * DAY_MS).toISOString(), ...changes },
  });
const savedBy = (visitors: number, product: string) =>
  Array.from({ length: visitors }, (_, i) => event(`v${i}`, 'add', product));
const shown = (productId: string, wishers: number, productHandle = `handle-${productId}`) => ({
  ...{ productId, productHandle, wishers },
});

async function openApp(t: Test, { env, ...settings }: AppSettings = {}) {
  const clickhouse = { CLICKHOUSE_URL: url, CLICKHOUSE_DATABASE: SHARED };
  const app = await startApp(t, redis, {
    extras: [popularWith(LOOKS)],
    ...settings,
    env: { ...clickhouse, ...env },
  });
  const get = (query: string, headers = {}) => app.get(`/popular?${query}`, headers);
  const looked = () => until('the first look has ended', async () => (await get('top=1')).status === 200);
  /** Waits until the numbers are these. */
  const becomes = (query: string, ...products: object[]) =>
    until(JSON.stringify(products), async () => {
      const { json } = await get(query);
      return JSON.stringify(json.products) === JSON.stringify(products);
    });
  return { ...app, get, looked, becomes };
}

t.test('products come in the order asked for; unknown ones, and those that few saved, are 0', async (t) => {
  await emptied(...savedBy(5, '1'), ...savedBy(4, '2'), ...savedBy(7, 'a/ü"b'));
  const { get, looked } = await openApp(t);
  await looked();
  const ids = ['2', 'gid://shopify/Product/1', '9', ' 1 ', 'a/ü"b'];
  const { json } = await get(ids.map((id) => `productId=${encodeURIComponent(id)}`).join('&'));
  t.same(json, {
    products: [shown('2', 0), shown('1', 5), shown('9', 0, ''), shown('1', 5), shown('a/ü"b', 7)],
  });
});

t.test('top lists the most saved products, the most saved first, without those that few saved', async (t) => {
  await emptied(...savedBy(3, '1'), ...savedBy(5, '2'), ...savedBy(2, '3'), ...savedBy(4, '4'));
  const { get, looked } = await openApp(t, { env: { POPULAR_FROM: '3' } });
  await looked();
  t.same((await get('top=100')).json, { products: [shown('2', 5), shown('4', 4), shown('1', 3)] });
  t.same((await get('top=2')).json, { products: [shown('2', 5), shown('4', 4)] });
});

t.test('visitors count whose last event for the product within GUEST_RETENTION_DAYS is an add', async (t) => {
  await emptied(
    ...[event('a', 'add', '1', 3), event('a', 'remove', '1', 2), event('a', 'add', '1', 1)],
    ...[event('b', 'add', '1', 3), event('b', 'add', '1', 2), event('b', 'share', '1', 1)],
    event('c', 'add', '1', 29),
    event('old', 'add', '1', 31),
    ...['remove', 'moveToCart', 'autoRemoveAfterPurchase'].flatMap((type) => [
      event(type, 'add', '1', 3, { variant_id: '11' }),
      event(type, type, '1', 2, { variant_id: '12' }),
    ]),
    event('a', 'remove', '2', 1),
  );
  const env = { POPULAR_FROM: '1', GUEST_RETENTION_DAYS: '30' };
  const within = await openApp(t, { env });
  await within.becomes('productId=1&productId=2', shown('1', 3), shown('2', 0));
  const forEver = await openApp(t, { env: { ...env, GUEST_RETENTION_DAYS: '0' } });
  await forEver.becomes('productId=1', shown('1', 4));
});

t.test('a merged visitor counts once, and an erased one not', async (t) => {
  await emptied(...['guest', 'customer', 'other'].map((visitor) => event(visitor, 'add', '1')));
  const { becomes } = await openApp(t, { env: { POPULAR_FROM: '1' } });
  await becomes('top=1', shown('1', 3));
  const at = Date.now();
  await insert(encodeMerge(newEventId(at), at, 'guest', { into: 'customer', isNew: false }));
  await becomes('top=1', shown('1', 2));
  await eraseRows(own, new Map([['other', `${at} ${at}`]]));
  await becomes('top=1', shown('1', 1));
});

t.test('neither products nor top, both, or more than 100, is 400 with each fault', async (t) => {
  const { get, looked } = await openApp(t);
  await looked();
  const ids = (count: number) => Array.from({ length: count }, (_, i) => `productId=${i + 1}`).join('&');
  const wrong: [query: string, ...paths: string[]][] = [
    ...([
      ['', ''],
      ['top=&productId=%20', ''],
      ['top=5&productId=1', ''],
    ] as [string, string][]),
    ...([
      ['top=0', '/top'],
      ['top=101', '/top'],
      ['top=x', '/top'],
      ['top=1.5', '/top'],
    ] as [string, string][]),
    ['top=1&top=2', '/top'],
    [ids(101), '/productId'],
    ['productId=1&productId=', '/productId/1'],
    ['productId=gid%3A%2F%2Fshopify%2FProductVariant%2F1', '/productId/0'],
    ['productId=%ff', '/productId/0'],
    ['top=0&productId=1&productId=%00', '', '/productId/1', '/top'],
  ];
  for (const [query, ...paths] of wrong) {
    const { status, json } = await get(query);
    t.match({ status, json }, { status: 400, json: { code: 'invalid_request' } }, query);
    const found = json.issues.map(({ in: where, path }: { in: string; path: string }) => `${where} ${path}`);
    t.same(found.sort(), paths.map((path) => `query ${path}`).sort(), query);
  }
  for (const query of [ids(100), 'top=100', 'top=1&productId=', 'top=1&utm_source=x'])
    t.equal((await get(query)).status, 200, query);
});

t.test(
  'anyone may ask, and a page of ALLOWED_ORIGINS read it; any cache may keep it for 5 minutes',
  async (t) => {
    await emptied(...savedBy(5, '1'));
    const { get, send, looked } = await openApp(t, { env: { ...SHOPPERS, VISIT_ACCESS: 'key' } });
    await looked();
    const kept = { status: 200, headers: { 'cache-control': 'public, max-age=300' } };
    for (const headers of [
      {},
      TRUSTED,
      { authorization: 'Bearer wrong' },
      { 'x-api-key': 'pk_unknown_key_12' },
    ])
      t.match(await get('top=1', headers), kept, JSON.stringify(headers));
    const { origin } = BROWSER;
    const varying = { ...kept.headers, vary: 'Origin' };
    t.match((await get('top=1', { origin })).headers, { ...varying, 'access-control-allow-origin': origin });
    const foreign = await get('top=1', { origin: 'https://other.example' });
    t.match(foreign.headers, { ...varying, 'access-control-allow-origin': undefined });
    const throughProxy = (parameters: Record<string, string>) => send('GET', proxied('/popular', parameters));
    t.match(await throughProxy({ top: '1' }), kept);
    t.equal((await throughProxy({ top: '1', shop: 'other.myshopify.com' })).status, 403);
    const head = await send('HEAD', '/popular?top=1');
    const { text, headers } = await get('top=1');
    t.match(head, { ...kept, text: '' });
    t.equal(head.headers['content-length'], String(Buffer.byteLength(text)));
    t.equal(headers['content-type'], 'application/json');
    t.equal((await send('POST', '/popular', {})).status, 405);
  },
);

t.test('an address is limited to ANONYMOUS_RATE_LIMIT, and its 429 is not kept', async (t) => {
  const { get, looked } = await openApp(t, { env: { ANONYMOUS_RATE_LIMIT: '2', TRUST_PROXY: '1' } });
  await looked(); // from loopback, which isn't limited
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => get('top=1', { 'x-forwarded-for': '192.0.2.1' })),
  );
  const refused = answers.find(({ status }) => status === 429);
  t.match(refused?.headers, { 'cache-control': 'no-store', 'retry-after': '1' });
});

t.test('with POPULAR=off, or without ClickHouse, it is 404', async (t) => {
  for (const env of [{ POPULAR: 'off' }, { CLICKHOUSE_URL: '' }]) {
    const { get, figure } = await openApp(t, { env });
    t.match(await get('top=1'), { status: 404, json: { code: 'not_found' } }, JSON.stringify(env));
    t.equal(await figure('popular_age_seconds'), undefined);
  }
});

t.test('before the first look it is 503; a look that fails leaves the old numbers', async (t) => {
  await emptied(...savedBy(5, '1'));
  const line = await startProxy(t, url);
  const through = new URL(url);
  through.port = String(line.port);
  line.freeze();
  const logged: unknown[] = [];
  const { get, becomes, figure, send } = await openApp(t, {
    env: { CLICKHOUSE_URL: through.href },
    extras: [popularWith({ ...LOOKS, deadlineMs: 1_000 })],
    onLog: ({ msg }) => logged.push(msg),
  });
  const early = await get('top=1');
  t.match(early, { status: 503, json: { code: 'unavailable' } });
  t.match(early.headers, { 'retry-after': '5', 'cache-control': 'no-store' });
  t.equal((await send('GET', '/readyz')).status, 200, 'the process is ready all the same');
  const failures = () => figure('popular_failures_total');
  await until('a look was ended by its deadline', async () => ((await failures()) ?? 0) >= 1);
  line.thaw();
  await becomes('top=1', shown('1', 5));

  line.retarget('http://127.0.0.1:1');
  line.dropAll();
  const before = (await failures()) ?? 0;
  await until('three more looks have failed', async () => ((await failures()) ?? 0) >= before + 3);
  const age = (await figure('popular_age_seconds')) ?? 0;
  t.same((await get('top=1')).json.products, [shown('1', 5)], 'the old numbers stay');
  await until('they grow older', async () => ((await figure('popular_age_seconds')) ?? 0) > age);
  t.ok(logged.includes('GET /popular keeps its old numbers: ClickHouse fails'));
  await insert(...['x', 'y'].map((visitor) => `${JSON.stringify(event(visitor, 'add', '1'))}\n`));
  line.retarget(url);
  await becomes('top=1', shown('1', 7));
});

t.test('of more products than fit, the most saved ones are known', async (t) => {
  await emptied(...savedBy(2, '~most'));
  const products = 110_000;
  await own.command({
    query: `INSERT INTO events_stored (event_id, type, occurred_at, profile_id, origin, product_id, product_handle)
      SELECT generateUUIDv4(), 'add', now64(3) - 10, 'v', 'item', leftPad(toString(number), 6, '0'),
        if(number = 1, repeat('x', 1021), 'handle') FROM numbers(${products})`,
  });
  const env = { POPULAR_FROM: '1' };
  const { becomes, get } = await openApp(t, { env });
  await becomes('top=2', shown('~most', 2), shown('000000', 1, 'handle'));
  const known = async (get: (query: string) => Promise<{ json: { products: object[] } }>, id: string) =>
    (await get(`productId=${id}`)).json.products;
  t.same(await known(get, '000001'), [shown('000001', 1, '')], 'a handle that is too long is left out');
  t.same(await known(get, '099998'), [shown('099998', 1, 'handle')], 'the last of 100,000');
  t.same(await known(get, '099999'), [shown('099999', 0, '')]);

  await own.command({ query: 'TRUNCATE TABLE products_stored' });
  await own.command({
    query: `INSERT INTO products_stored (product_id, handle) SELECT leftPad(toString(number), 6, '0'),
      (true, now64(3), repeat('y', 1020)) FROM numbers(20000)`,
  });
  const large = await openApp(t, { env });
  await large.looked();
  t.match(await known(large.get, '015000'), [{ wishers: 1 }]);
  t.same(await known(large.get, '019999'), [shown('019999', 0, '')], 'beyond 16 MiB');
});
