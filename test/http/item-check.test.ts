// POST /item/check: which products of a page are on the visitor's wishlist, and what it costs.

import t from 'tap';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { connectToEach } from '../harness/redis.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const send = (identity: object, products: unknown) =>
    app.post('/item/check', { identity, products }, TRUSTED);
  const check = async (identity: object, products: object[]) => (await send(identity, products)).json.items;
  const add = async (identity: object, productId: string, variantId: string | null): Promise<string> =>
    (await app.shop.add(identity, { productId, variantId })).itemId;

  t.test('each product is answered in order, in the way of ids that every operation has', async (t) => {
    const guest = { sessionId: 'checks' };
    const shoe = await add(guest, '1', '11');
    const hat = await add(guest, 'a:b%', 'c:d');
    const products = [
      { productId: 2, variantId: '11' },
      { productId: 'gid://shopify/Product/1', variantId: 'gid://shopify/ProductVariant/11' },
      { productId: 'a:b%', variantId: 'c:d' },
      { productId: 'a', variantId: 'b%:c:d' },
      { productId: '1', variantId: 11 },
    ];
    t.same(await check(guest, products), [
      { productId: '2', variantId: '11', itemId: null },
      { productId: '1', variantId: '11', itemId: shoe },
      { productId: 'a:b%', variantId: 'c:d', itemId: hat },
      { productId: 'a', variantId: 'b%:c:d', itemId: null },
      { productId: '1', variantId: '11', itemId: shoe },
    ]);
  });

  t.test('without a variant any variant counts: the one saved without, else the newest', async (t) => {
    const guest = { sessionId: 'any' };
    await add(guest, '1', '11');
    const newest = await add(guest, '1', '12');
    await add(guest, '2', '21');
    const whole = await add(guest, '2', null);
    await add(guest, '2', '22');
    const longer = await add(guest, '33', '1');
    t.same(await check(guest, [{ productId: '1' }, { productId: '2', variantId: '' }, { productId: '3' }]), [
      { productId: '1', variantId: '12', itemId: newest },
      { productId: '2', variantId: null, itemId: whole },
      { productId: '3', variantId: null, itemId: null },
    ]);
    t.match(await check(guest, [{ productId: '33', variantId: null }]), [{ itemId: longer }]);
  });

  t.test('a login: the customer’s list is checked, and nothing is linked', async (t) => {
    const [guest, customer] = [{ sessionId: 'logs-in' }, { customerId: '7' }];
    const itemId = await add(guest, '1', '11');
    await add(customer, '2', '21');
    const products = [{ productId: '1', variantId: '11' }, { productId: '2' }];
    const before = await dumpRedis(redis, app.prefix);
    t.match(await check({ ...guest, ...customer }, products), [{ itemId: null }, { itemId: /./ }]);
    t.match(await check({ sessionId: 'nobody' }, products), [{ itemId: null }, { itemId: null }]);
    t.same(await dumpRedis(redis, app.prefix), before, 'nobody is known by it');
    await app.shop.login({ ...guest, ...customer });
    t.match(await check(guest, products), [{ itemId }, { itemId: /./ }]);
  });

  t.test('of a long list exact variants cost one read, and any variant reads bounded pages', async (t) => {
    const guest = { sessionId: 'long' };
    for (let i = 0; i < 700; i++) await add(guest, `p-${i}`, 'v');
    const clients = connectToEach(t, redis.urls);
    const calls = async (command: string) => {
      const texts = await Promise.all(clients.map((client) => client.info('commandstats')));
      const of = (text: string) =>
        Number(new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(text)?.[1] ?? 0);
      return texts.reduce((sum, text) => sum + of(text), 0);
    };
    const spent = async (work: () => Promise<void>) => {
      const before = [await calls('hmget'), await calls('hscan'), await calls('hkeys')];
      await work();
      const after = [await calls('hmget'), await calls('hscan'), await calls('hkeys')];
      return after.map((count, i) => count - (before[i] as number));
    };
    const products = Array.from({ length: 250 }, (_, i) => ({ productId: `p-${i + 600}`, variantId: 'v' }));
    const cost = await spent(async () => {
      const found = (await check(guest, products)).map(
        ({ itemId }: { itemId: string | null }) => itemId !== null,
      );
      t.same(
        found,
        products.map((_, i) => i < 100),
      );
    });
    t.same(cost, [1, 0, 0], 'one HMGET, no scan');
    const [, pages, wholes] = await spent(async () => {
      t.match(await check(guest, [{ productId: 'p-5' }, { productId: 'p-700' }]), [
        { productId: 'p-5', variantId: 'v', itemId: /./ },
        { productId: 'p-700', variantId: null, itemId: null },
      ]);
    });
    t.ok((pages as number) > 1, 'pages');
    t.equal(wholes, 0);
  });

  t.test('what it refuses', async (t) => {
    const guest = { sessionId: 'refused' };
    const product = { productId: '1' };
    for (const [products, path] of [
      [[], '/products'],
      [Array(251).fill(product), '/products'],
      [undefined, '/products'],
      [[product, {}], '/products/1/productId'],
      [[{ productId: 'gid://shopify/ProductVariant/1' }], '/products/0/productId'],
    ])
      t.match(await send(guest, products), { status: 400, json: { issues: [{ path }] } });
    t.equal((await send(guest, Array(250).fill(product))).status, 200);
    t.equal((await app.post('/item/check', { identity: guest, products: [product] })).status, 401);
  });
});
