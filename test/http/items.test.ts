// POST /item/add, /item/remove and /item/list: their answers, what they keep, and the events that they create.

import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { eventsOf, gist, rowsOf } from '../harness/stream.js';
import { CONTENT, itemOf } from './wishlist.js';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const add = (app: TestApp, item: object) => app.post('/item/add', item, TRUSTED);
const remove = (app: TestApp, removal: object) => app.post('/item/remove', removal, TRUSTED);
const list = async (app: TestApp, identity: object) =>
  (await app.post('/item/list', { identity }, TRUSTED)).json;
const listed = async (app: TestApp, identity: object): Promise<string[]> =>
  (await list(app, identity)).items.map((item: { productId: string }) => item.productId);

/** The payload of its events. */
const KNOWN = {
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

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);

  t.test('an item that is added is listed with all that was given, and makes one add event', async (t) => {
    const who = { sessionId: 'add' };
    const started = new Date().toISOString();
    const added = await add(app, itemOf(who));
    t.equal(added.status, 200);
    const { profileId, itemId } = added.json;
    t.match(itemId, UUID_V7);
    t.equal(
      added.text,
      JSON.stringify({ profileId, itemId, productId: '1001', variantId: '2002', quantity: 2 }),
    );

    const answer = await list(app, who);
    t.same(Object.keys(answer), ['profileId', 'items']);
    const [{ addedAt, updatedAt, ...item }] = answer.items;
    t.same(item, { ...CONTENT, itemId, productId: '1001', variantId: '2002' });
    t.match(addedAt, ISO);
    t.ok(addedAt >= started && addedAt <= new Date().toISOString());
    t.equal(updatedAt, addedAt);
    t.equal(answer.profileId, profileId);

    const events = await eventsOf(redis, app, who);
    t.same(events.map(gist), [
      {
        type: 'add',
        origin: 'item',
        payload: { ...KNOWN, source: 'collection' },
      },
    ]);
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

  t.test('removing and listing create nothing, and name the profile that the first write gets', async (t) => {
    const unknown = [
      { sessionId: 'nobody' },
      { customerId: '404' },
      { sessionId: 'nobody-2', customerId: '405' },
    ];
    const before = await dumpRedis(redis, app.prefix);
    const seen: string[] = [];
    for (const identity of unknown) {
      const answer = await list(app, identity);
      t.same(answer, { profileId: answer.profileId, items: [] });
      const removed = (await remove(app, { identity, productId: '1' })).json;
      t.same(removed, { profileId: answer.profileId, removed: false, productId: '1', variantId: null });
      seen.push(answer.profileId);
    }
    t.same(await dumpRedis(redis, app.prefix), before);
    for (const [i, identity] of unknown.entries()) {
      t.equal((await add(app, itemOf(identity))).json.profileId, seen[i]);
    }
  });

  t.test('named with an unknown customer, a guest’s list is read, and nothing is linked', async (t) => {
    const guest = { sessionId: 'adopted' };
    const both = { ...guest, customerId: '4711' };
    await add(app, itemOf(guest));
    await list(app, guest); // notes that it was seen
    const before = await dumpRedis(redis, app.prefix);
    const read = await list(app, both);
    t.same(read, await list(app, guest));
    t.same(await dumpRedis(redis, app.prefix), before);
    t.equal((await add(app, itemOf(both))).json.profileId, read.profileId);
  });

  t.test('a login unites two wishlists; of two items for one variant the customer’s stays', async (t) => {
    const guest = { sessionId: 'unite' };
    const customer = { customerId: '88' };
    await add(app, itemOf(customer, { productId: '1', quantity: 1 }));
    await add(app, itemOf(guest, { productId: '1', quantity: 9 }));
    await add(app, itemOf(guest, { productId: '2' }));
    t.same(await listed(app, { ...guest, ...customer }), ['1'], 'reading links nothing');
    t.same(await listed(app, guest), ['2', '1']);
    const removal = { identity: { ...guest, ...customer }, productId: '2', variantId: '2002' };
    t.match((await remove(app, removal)).json, { removed: true }, 'a write in both names links first');
    const { items } = await list(app, guest);
    t.equal(items.length, 1);
    t.match(items[0], { productId: '1', quantity: 1 });
    t.same(await list(app, customer), await list(app, guest));
  });

  t.test(
    'one item added 100 times at once is one item, removed 100 times at once is removed once',
    async (t) => {
      const who = { sessionId: 'at-once' };
      const second = await startApp(t, redis, { prefix: app.prefix });
      const either = (i: number) => (i % 2 ? app : second);
      const adds = await Promise.all(
        Array.from({ length: 100 }, (_, i) => add(either(i), itemOf(who, { quantity: 1 + (i % 10) }))),
      );
      t.same(new Set(adds.map(({ status }) => status)), new Set([200]));
      t.equal(new Set(adds.map(({ json }) => json.itemId)).size, 1);
      t.equal((await list(app, who)).items.length, 1);

      const removals = await Promise.all(
        Array.from({ length: 100 }, (_, i) =>
          remove(either(i), { identity: who, productId: '1001', variantId: '2002' }),
        ),
      );
      t.equal(removals.filter(({ json }) => json.removed).length, 1);
      t.same(new Set(removals.map(({ status }) => status)), new Set([200]));
      const removed = (await eventsOf(redis, app, who)).filter(({ type }) => type === 'remove');
      t.equal(removed.length, 1);
      await outboxesAreEmpty(t, app);
    },
  );

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  t.test('what is optional may be left out: no variant, source pdp, null for the rest', async (t) => {
    const who = { sessionId: 'least' };
    const { variantId: _v, variantTitle: _t, source: _s, currencyCode: _c, ...rest } = CONTENT;
    const { countryCode: _o, properties: _p, ...least } = rest;
    const { json } = await add(app, { identity: who, ...least, compareAt: null });
    t.same(json.variantId, null);
    const [{ itemId: _i, addedAt: _a, updatedAt: _u, ...item }] = (await list(app, who)).items;
    t.same(item, {
      ...least,
      productId: '1001',
      variantId: null,
      variantTitle: null,
      compareAt: null,
      source: 'pdp',
      currencyCode: null,
      countryCode: null,
      properties: null,
    });
    const { currencyCode: _, ...told } = KNOWN;
    t.same((await eventsOf(redis, app, who)).map(gist), [
      {
        type: 'add',
        origin: 'item',
        payload: { ...told, variantId: null, variantTitle: null, compareAt: null, source: 'pdp' },
      },
    ]);
  });

  t.test('an item may be added as it was listed: null is what was not given', async (t) => {
    const who = { sessionId: 'as listed' };
    const { variantId: _v, variantTitle: _t, currencyCode: _c, ...rest } = CONTENT;
    const { countryCode: _o, properties: _p, ...least } = rest;
    await add(app, { identity: who, ...least });
    const [listed] = (await list(app, who)).items;
    for (const name of ['variantId', 'variantTitle', 'currencyCode', 'countryCode', 'properties'])
      t.equal(listed[name], null, name);
    const { status } = await app.post('/item/add', { identity: who, ...listed }, TRUSTED);
    t.equal(status, 200);
    const [{ updatedAt: _later, ...again }] = (await list(app, who)).items;
    const { updatedAt: _first, ...before } = listed;
    t.same(again, before);
    const [first, second] = await eventsOf(redis, app, who);
    t.same(second?.payload, first?.payload);
  });

  t.test('adding again updates the item, keeps its id and addedAt, and is another event', async (t) => {
    const who = { sessionId: 'again' };
    const first = await add(app, itemOf(who));
    const before = (await list(app, who)).items[0];
    const second = await add(
      app,
      itemOf(who, { productId: '1001', variantId: '2002', quantity: 5, price: '10.00' }),
    );
    t.equal(second.json.itemId, first.json.itemId);
    t.equal(second.json.quantity, 5);
    const { items } = await list(app, who);
    t.equal(items.length, 1);
    t.match(items[0], { quantity: 5, price: '10.00', itemId: before.itemId, addedAt: before.addedAt });
    t.ok(items[0].updatedAt >= before.updatedAt);
    await add(app, itemOf(who, { quantity: 5, price: '10.00' }));
    t.equal((await eventsOf(redis, app, who)).length, 3, 'the very same once more is an event, too');
  });

  t.test(
    'product and variant make an item; ids that are not Shopify’s do not run into each other',
    async (t) => {
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
      for (const [productId, variantId] of ids) await add(app, itemOf(who, { productId, variantId }));
      const { items } = await list(app, who);
      t.same(
        items.map((item: { productId: string; variantId: string }) => [item.productId, item.variantId]),
        ids.toReversed(),
        'newest first, also within a millisecond',
      );
      for (const [productId, variantId] of ids) {
        t.match(await remove(app, { identity: who, productId, variantId }), { json: { removed: true } });
      }
      t.same(await listed(app, who), []);
    },
  );

  t.test('gid and digits are one item, in every operation, and answers have the digits', async (t) => {
    const who = { sessionId: 'gid' };
    const { itemId } = (await add(app, itemOf(who, { productId: '7', variantId: '8' }))).json;
    const again = itemOf(who, {
      productId: 'gid://shopify/Product/7',
      variantId: ' gid://shopify/ProductVariant/8 ',
    });
    t.match((await add(app, again)).json, { itemId, productId: '7', variantId: '8' });
    const removal = {
      identity: who,
      productId: 'gid://shopify/Product/7',
      variantId: 'gid://shopify/ProductVariant/8',
    };
    t.match((await remove(app, removal)).json, { removed: true, productId: '7', variantId: '8' });
  });

  t.test('a removed item is gone, with one remove event and the body of the contract', async (t) => {
    const who = { sessionId: 'remove' };
    const { profileId } = (await add(app, itemOf(who))).json;
    await add(app, itemOf(who, { variantId: null }));
    const removed = await remove(app, { identity: who, productId: '1001', variantId: '2002' });
    t.equal(removed.status, 200);
    t.equal(removed.text, JSON.stringify({ profileId, removed: true, productId: '1001', variantId: '2002' }));
    t.equal((await list(app, who)).items.length, 1, 'the one without a variant stays');
    t.same((await eventsOf(redis, app, who)).slice(2).map(gist), [
      { type: 'remove', origin: 'item', payload: KNOWN },
    ]);
    const gone = await remove(app, { identity: who, productId: '1001', variantId: '2002', event: null });
    t.equal(gone.text, JSON.stringify({ profileId, removed: false, productId: '1001', variantId: '2002' }));
    t.equal((await eventsOf(redis, app, who)).length, 3, 'nothing there: no event');
  });

  t.test('moveToCart has the recommended payload, filled from what was stored', async (t) => {
    const who = { customerId: '77' };
    await add(app, itemOf(who));
    const removal = { identity: who, productId: '1001', variantId: '2002', event: 'moveToCart' };
    t.match((await remove(app, removal)).json, { removed: true });
    const [, moved] = await eventsOf(redis, app, who);
    t.same(moved && gist(moved), {
      type: 'moveToCart',
      origin: 'item',
      payload: { ...KNOWN, image: 'https://cdn.shop.example/red.png' },
    });
    const columns = { product_handle: 'red-shoe', quantity: 2, price: '79.90', compare_at: '99.90' };
    t.match(moved, { ...columns, currency: 'EUR', inventory_available: true });
    const soldOut = { customerId: '78' };
    const { currencyCode: _, ...without } = CONTENT;
    await add(app, { identity: soldOut, ...without, inventoryAvailable: false });
    await remove(app, { ...removal, identity: soldOut });
    for (const event of await eventsOf(redis, app, soldOut)) {
      t.match(event, { inventory_available: false });
      t.notOk('currency' in event, 'what was not given');
    }
    t.match((await remove(app, removal)).json, { removed: false });
    await add(app, itemOf(who));
    await remove(app, { ...removal, event: 'remove' });
    t.same(
      (await eventsOf(redis, app, who)).map(({ type }) => type),
      ['add', 'moveToCart', 'add', 'remove'],
    );
  });

  t.test('what an identity says of its visitor is kept with the profile', async (t) => {
    const who = { sessionId: 'facts', email: 'ann@example.org', firstName: 'Ann', locale: 'de' };
    const { profileId } = (await add(app, itemOf(who))).json;
    const dump = await dumpRedis(redis, app.prefix);
    t.match(dump[createKeys(app.prefix).profile(profileId)], { email: 'ann@example.org', firstName: 'Ann' });
    t.notMatch(JSON.stringify(await eventsOf(redis, app, { sessionId: 'facts' })), /ann@|Ann/);
  });

  t.test('500 items of 50 visitors at once: each there, each with its event', async (t) => {
    const fresh = await startApp(t, redis);
    const answers = await Promise.all(
      Array.from({ length: 500 }, (_, i) =>
        add(fresh, itemOf({ sessionId: `crowd-${i % 50}` }, { productId: String(1 + Math.floor(i / 50)) })),
      ),
    );
    t.ok(answers.every(({ status }) => status === 200));
    const rows = await rowsOf(redis, fresh);
    for (let who = 0; who < 50; who++) {
      const sessionId = `crowd-${who}`;
      t.equal((await list(fresh, { sessionId })).items.length, 10);
      const ids = rows.filter(({ session_id }) => session_id === sessionId).map(({ event_id }) => event_id);
      t.equal(ids.length, 10);
      t.equal(new Set(ids).size, 10);
    }
    await outboxesAreEmpty(t, fresh);
  });

  async function outboxesAreEmpty(t: Test, of: TestApp): Promise<void> {
    const dump = await dumpRedis(redis, of.prefix);
    t.same(
      Object.keys(dump).filter((key) => key.includes(':o:')),
      [],
      'no event is left behind',
    );
  }
});
