// The operations of /item: what each answers, keeps and records; POST /item/check: which products of a page are saved; and
// POST /item/count.

import t from 'tap';
import { type ItemPayload, REQUIRED_FIELDS } from '../../src/item-fields.js';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { connectToEach } from '../harness/redis.js';
import { gist } from '../harness/stream.js';
import { until } from '../harness/until.js';
import { CONTENT, itemOf, without } from './wishlist.js';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const OPTIONAL = Object.keys(CONTENT).filter((name) => name !== 'source' && !REQUIRED_FIELDS.includes(name));
const LEAST = OPTIONAL.reduce(without, without(CONTENT, 'source'));
/** The payload of the item's events. */
const KNOWN: ItemPayload<'remove'> = {
  productId: '1001',
  variantId: '2002',
  productHandle: 'red-shoe',
  productTitle: 'Red shoe',
  variantTitle: '42',
  quantity: 2,
  price: '79.90',
  compareAt: '99.90',
  currencyCode: 'EUR',
  inventoryAvailable: true,
};
const PRODUCT = { productId: '1001', variantId: '2002' };
eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const send = (item: object, by = app) => by.post('/item/add', item, TRUSTED);
  const add = (identity: object, changes = {}) => app.shop.add(identity, { ...CONTENT, ...changes });
  const { remove, items } = app.shop;
  const list = async (identity: object) => (await app.post('/item/list', { identity }, TRUSTED)).json;
  const listed = async (identity: object) => (await items(identity)).map(({ productId }) => productId);

  t.test(
    "a read with both ids returns the customer's list and links nothing, and a login keeps its profile id",
    async (t) => {
      const guest = { sessionId: 'reads-first' };
      const customer = { customerId: '4711' };
      const both = { ...guest, ...customer };
      await add(guest);
      const before = await app.dump();
      const read = await list(both);
      t.same(read, { ...(await list(customer)), items: [] });
      t.not(read.profileId, (await list(guest)).profileId);
      t.same(await app.dump(), before);
      t.equal((await app.shop.login(both)).profileId, read.profileId);
      for (const who of [guest, customer, both])
        t.match(await list(who), { profileId: read.profileId, items: { length: 1 } });
    },
  );

  t.test("a login unites two wishlists, and the customer's item wins if both have the variant", async (t) => {
    const [guest, customer] = [{ sessionId: 'unite' }, { customerId: '88' }];
    await add(customer, { productId: '1', quantity: 1 });
    await add(guest, { productId: '1', quantity: 9 });
    await add(guest, { productId: '2' });
    t.same(await listed({ ...guest, ...customer }), ['1'], 'reading links nothing');
    t.same(await listed(guest), ['2', '1']);
    const removed = await remove({ ...guest, ...customer }, { productId: '2', variantId: '2002' });
    t.match(removed, { removed: true }, 'a write in both names links first');
    const found = await items(guest);
    t.equal(found.length, 1);
    t.match(found[0], { productId: '1', quantity: 1 });
    t.same(await list(customer), await list(guest));
    t.match(await app.shop.login({ ...guest, ...customer }), { merged: false }, 'it is done');
  });

  t.test('100 concurrent adds make one item, and 100 concurrent removals remove it once', async (t) => {
    const who = { sessionId: 'at-once' };
    const second = await startApp(t, redis, { prefix: app.prefix });
    const atOnce = <T>(act: (by: typeof app, i: number) => Promise<T>): Promise<T[]> =>
      Promise.all(Array.from({ length: 100 }, (_, i) => act(i % 2 ? app : second, i)));
    const adds = await atOnce((by, i) => by.shop.add(who, { ...CONTENT, quantity: 1 + (i % 10) }));
    t.equal(new Set(adds.map(({ itemId }) => itemId)).size, 1);
    t.equal((await items(who)).length, 1);
    const removals = await atOnce((by) => by.shop.remove(who, PRODUCT));
    t.equal(removals.filter(({ removed }) => removed).length, 1);
    // A line may be stored several times under one id: ClickHouse shows it once.
    const events = async (identity: { sessionId: string }, type: string) =>
      new Set((await app.events(identity)).flatMap((row) => (row['type'] === type ? row['event_id'] : [])))
        .size;
    await until('the removal has its event', async () => (await events(who, 'remove')) === 1);
  });

  // The tests below cross no slots.
  if (redis.urls.length > 1) return;

  t.test('an added item is listed with all given fields, and makes one add event', async (t) => {
    const who = { sessionId: 'add' };
    const started = new Date().toISOString();
    const added = await send(itemOf(who));
    t.equal(added.status, 200);
    const { profileId, itemId } = added.json;
    t.match(itemId, UUID_V7);
    t.equal(added.text, JSON.stringify({ profileId, itemId, ...PRODUCT, quantity: 2 }));

    const answer = await list(who);
    t.same(Object.keys(answer), ['profileId', 'items']);
    const [{ addedAt, updatedAt, ...item }] = answer.items;
    t.same(item, { ...CONTENT, itemId, ...PRODUCT });
    t.match(addedAt, ISO);
    t.ok(addedAt >= started && addedAt <= new Date().toISOString());
    t.equal(updatedAt, addedAt);
    t.equal(answer.profileId, profileId);

    const events = await app.events(who);
    const payload: ItemPayload<'add'> = { ...KNOWN, source: 'collection' };
    t.same(events.map(gist), [{ type: 'add', origin: 'item', payload }]);
    t.match(events[0], {
      event_id: UUID_V7,
      profile_id: profileId,
      session_id: 'add',
      device: 'desktop',
      product_id: '1001',
      variant_id: '2002',
      product_handle: 'red-shoe',
      source: 'collection',
      quantity: 2,
      price: '79.90',
      compare_at: '99.90',
      currency: 'EUR',
      inventory_available: true,
    });
  });

  t.test(
    'removing and listing create nothing, and return the profile id that the first write gets',
    async (t) => {
      const unknown = [
        { sessionId: 'new' },
        { customerId: '404' },
        { sessionId: 'new-2', customerId: '405' },
      ];
      const before = await app.dump();
      const seen: string[] = [];
      for (const identity of unknown) {
        const answer = await list(identity);
        t.same(answer, { profileId: answer.profileId, items: [] });
        const removed = await remove(identity, { productId: '1' });
        t.same(removed, { profileId: answer.profileId, removed: false, productId: '1', variantId: null });
        seen.push(answer.profileId);
      }
      t.same(await app.dump(), before);
      for (const [i, identity] of unknown.entries()) t.equal((await add(identity)).profileId, seen[i]);
    },
  );

  t.test(
    'an optional field of an item may be missing or null, and a listed item can be added again',
    async (t) => {
      const who = { sessionId: 'least' };
      await send({ identity: who, ...LEAST, compareAt: null });
      const [first] = await items(who);
      const { itemId: _i, addedAt: _a, updatedAt: _u, ...item } = first;
      const nulls = Object.fromEntries(OPTIONAL.map((name) => [name, null]));
      t.same(item, { ...LEAST, ...nulls, productId: '1001', compareAt: null, source: 'pdp' });
      t.equal((await send({ identity: who, ...first })).status, 200);
      const [{ updatedAt: _, ...again }] = await items(who);
      t.same(again, without(first, 'updatedAt'));
      const payload = { ...without(KNOWN, 'currencyCode'), variantId: null, variantTitle: null };
      const expected = {
        type: 'add',
        origin: 'item',
        payload: { ...payload, compareAt: null, source: 'pdp' },
      };
      t.same((await app.events(who)).map(gist), [expected, expected]);
    },
  );

  t.test('adding an item again updates it, keeps its id and addedAt, and makes another event', async (t) => {
    const who = { sessionId: 'again' };
    const { itemId } = await add(who);
    const [{ addedAt, updatedAt }] = await items(who);
    for (let i = 0; i < 2; i++)
      t.match(await add(who, { ...PRODUCT, quantity: 5, price: '10.00' }), { itemId, quantity: 5 });
    const found = await items(who);
    t.equal(found.length, 1);
    t.match(found[0], { quantity: 5, price: '10.00', itemId, addedAt });
    t.ok(found[0].updatedAt >= updatedAt);
    t.equal((await app.events(who)).length, 3, 'the very same once more is an event, too');
  });

  t.test('product and variant identify an item, and no two pairs of ids collide', async (t) => {
    const who = { sessionId: 'fields' };
    const ids: [string, string | null][] = [
      ['1', null],
      ['1', '2'],
      ['1', '3'],
      ['12', null],
      ['a:b', 'c'],
      ['a', 'b:c'],
      ['a:b:c', null],
      ['a%3Ab', 'c'],
      ['__proto__', 'constructor'],
    ];
    for (const [productId, variantId] of ids) await add(who, { productId, variantId });
    const found = (await items(who)).map(({ productId, variantId }) => [productId, variantId]);
    t.same(found, ids.toReversed(), 'newest first, also within a millisecond');
    for (const [productId, variantId] of ids)
      t.match(await remove(who, { productId, variantId }), { removed: true });
    t.same(await listed(who), []);
  });

  t.test('a removed item is no longer listed, and makes one remove event', async (t) => {
    const who = { sessionId: 'remove' };
    const { profileId } = await add(who);
    await add(who, { variantId: null });
    const removed = await app.post('/item/remove', { identity: who, ...PRODUCT }, TRUSTED);
    const body = { profileId, removed: true, ...PRODUCT };
    t.match(removed, { status: 200, text: JSON.stringify(body) });
    t.equal((await items(who)).length, 1, 'the one without a variant stays');
    t.same((await app.events(who)).slice(2).map(gist), [{ type: 'remove', origin: 'item', payload: KNOWN }]);
    t.same(await remove(who, { ...PRODUCT, event: null }), { ...body, removed: false });
    t.equal((await app.events(who)).length, 3, 'nothing there: no event');
  });

  t.test('a moveToCart event has the recommended payload, filled from the stored item', async (t) => {
    const who = { customerId: '77' };
    await add(who);
    const removal = { ...PRODUCT, event: 'moveToCart' };
    t.match(await remove(who, removal), { removed: true });
    const [, moved = {}] = await app.events(who);
    const payload: ItemPayload<'moveToCart'> = { ...KNOWN, image: CONTENT.image };
    t.same(gist(moved), { type: 'moveToCart', origin: 'item', payload });
    const columns = { product_handle: 'red-shoe', quantity: 2, price: '79.90', compare_at: '99.90' };
    t.match(moved, { ...columns, currency: 'EUR', inventory_available: true });
    const soldOut = { customerId: '78' };
    await send({ identity: soldOut, ...without(CONTENT, 'currencyCode'), inventoryAvailable: false });
    await remove(soldOut, removal);
    const events = await app.events(soldOut);
    t.equal(events.length, 2);
    for (const event of events) {
      t.match(event, { inventory_available: false });
      t.notOk('currency' in event, 'what was not given');
    }
  });

  t.test('properties of more than 16 KiB are refused, and change nothing', async (t) => {
    const before = await app.dump();
    const properties = { a: 'x'.repeat(16_384 - 7) };
    const tooLarge = await send(itemOf({ sessionId: 'limits' }, { properties }));
    const issues = [{ path: '/properties', message: 'must have at most 16384 bytes as JSON' }];
    t.match(tooLarge, { status: 413, json: { code: 'payload_too_large', issues } });
    t.same(await app.dump(), before);
  });
});

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const send = (identity: object, products: unknown) =>
    app.post('/item/check', { identity, products }, TRUSTED);
  const check = async (identity: object, products: object[]) => (await send(identity, products)).json.items;
  const add = async (identity: object, productId: string, variantId: string | null): Promise<string> =>
    (await app.shop.add(identity, { productId, variantId })).itemId;

  t.test('POST /item/check answers each product in order, in every spelling of its ids', async (t) => {
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

  t.test(
    'POST /item/check without a variant finds the item without one, else the newest variant',
    async (t) => {
      const guest = { sessionId: 'any' };
      await add(guest, '1', '11');
      const newest = await add(guest, '1', '12');
      await add(guest, '2', '21');
      const whole = await add(guest, '2', null);
      await add(guest, '2', '22');
      const longer = await add(guest, '33', '1');
      t.same(
        await check(guest, [{ productId: '1' }, { productId: '2', variantId: '' }, { productId: '3' }]),
        [
          { productId: '1', variantId: '12', itemId: newest },
          { productId: '2', variantId: null, itemId: whole },
          { productId: '3', variantId: null, itemId: null },
        ],
      );
      t.match(await check(guest, [{ productId: '33', variantId: null }]), [{ itemId: longer }]);
    },
  );

  t.test(
    'POST /item/check reads exact variants of a long list at once, and any variant in bounded pages',
    async (t) => {
      const guest = { sessionId: 'long' };
      for (let i = 0; i < 700; i += 50)
        await Promise.all(Array.from({ length: 50 }, (_, n) => add(guest, `p-${i + n}`, 'v')));
      const clients = connectToEach(t, redis.urls);
      const calls = async (command: string) => {
        const texts = await Promise.all(clients.map((client) => client.info('commandstats')));
        const of = (text: string) =>
          Number(new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(text)?.[1] ?? 0);
        return texts.reduce((sum, text) => sum + of(text), 0);
      };
      const allCalls = () => Promise.all(['hmget', 'hscan', 'hkeys', 'hlen'].map(calls));
      const spent = async (work: () => Promise<void>) => {
        const before = await allCalls();
        await work();
        return (await allCalls()).map((count, i) => count - (before[i] as number));
      };
      const products = Array.from({ length: 250 }, (_, i) => ({ productId: `p-${i + 600}`, variantId: 'v' }));
      const cost = await spent(async () => {
        const found = (await check(guest, products)) as { itemId: string | null }[];
        const isThere = found.map(({ itemId }) => itemId !== null);
        t.same([isThere.indexOf(false), isThere.lastIndexOf(true)], [100, 99]);
      });
      t.same(cost, [1, 0, 0, 0], 'one HMGET, no scan');
      const [, pages, wholes] = await spent(async () => {
        t.match(await check(guest, [{ productId: 'p-5' }, { productId: 'p-700' }]), [
          { productId: 'p-5', variantId: 'v', itemId: /./ },
          { productId: 'p-700', variantId: null, itemId: null },
        ]);
      });
      t.ok((pages as number) > 1, 'pages');
      t.equal(wholes, 0);
      const ofCount = await spent(async () => {
        t.match(await app.shop.itemCount(guest), { count: 700 });
      });
      t.same(ofCount, [0, 0, 0, 1], 'to count them costs one HLEN');
    },
  );

  t.test('POST /item/count counts the items of guests, customers and their sessions', async (t) => {
    const [guest, customer, session] = [
      { sessionId: 'counted' },
      { customerId: '90' },
      { sessionId: 'counted-90' },
    ];
    await add(guest, '1', '11');
    await add(guest, '1', '12');
    const { profileId } = await app.shop.add(customer, { productId: '2' });
    t.match(await app.shop.itemCount(guest), { count: 2 });
    await app.shop.remove(guest, { productId: '1', variantId: '12' });
    t.match(await app.shop.itemCount(guest), { count: 1 });
    await app.shop.login({ ...customer, ...session });
    await app.shop.login({ ...customer, ...guest });
    for (const who of [customer, session, guest, { ...customer, ...session }])
      t.same(await app.shop.itemCount(who), { profileId, count: 2 }, JSON.stringify(who));
  });

  t.test('POST /item/count creates and links nothing', async (t) => {
    const [session, customer] = [{ sessionId: 'not-counted' }, { customerId: '91' }];
    const before = await app.dump();
    const counted = await app.shop.itemCount(session);
    t.match(counted, { count: 0 });
    t.match(await app.shop.itemCount(customer), { count: 0 });
    t.match(await app.shop.itemCount({ ...customer, ...session }), { count: 0 });
    t.same(await app.dump(), before);
    t.match(await app.shop.add(session), { profileId: counted.profileId });
  });
});
