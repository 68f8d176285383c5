// Bodies that /item/add, /item/remove and /item/list refuse, and that change nothing: the limits of every field, from both
// sides, and wrong types.

import t from 'tap';
import { startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { itemOf, NOT_JSON, without } from './wishlist.js';

const add = (app: TestApp, item: object) => app.post('/item/add', item, TRUSTED);
const remove = (app: TestApp, removal: object) => app.post('/item/remove', removal, TRUSTED);

t.test('items that are refused', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis);

  t.test('limits of every field, from both sides', async (t) => {
    const who = { sessionId: 'limits' };
    const taken: [string, unknown][] = [
      ['productId', 'x'.repeat(255)],
      ['productId', `gid://shopify/Product/${'9'.repeat(255)}`],
      ['variantId', 'x'.repeat(255)],
      ['productHandle', 'é'.repeat(127)],
      ['productTitle', 'x'],
      ['productTitle', 'x'.repeat(1_024)],
      ['variantTitle', 'x'.repeat(1_024)],
      ['image', 'x'.repeat(2_048)],
      ['price', '0.00'],
      ['price', '9999999999999999.99'],
      ['compareAt', null],
      ['quantity', 1],
      ['quantity', 4_294_967_295],
      ['currencyCode', 'JP'],
      ['currencyCode', 'JPY'],
      ['countryCode', 'jp'],
      ['inventoryAvailable', false],
      ['properties', {}],
      ['properties', { a: 'x'.repeat(16_384 - 8) }],
      ['variantTitle', null],
      ['variantId', null],
      ...['pdp', 'collection', 'cart', 'wishlist', 'email', 'pdpSmartSave', 'other'].map(
        (source): [string, unknown] => ['source', source],
      ),
    ];
    for (const [field, value] of taken) {
      const { status, text } = await add(app, itemOf(who, { [field]: value }));
      t.equal(status, 200, `${field} ${String(JSON.stringify(value)).slice(0, 40)}: ${text.slice(0, 200)}`);
    }

    const refused: [string, unknown][] = [
      ...['productId', 'productTitle', 'productHandle', 'image'].flatMap((field): [string, unknown][] =>
        [1.5, true, [], {}, '\ud800'].map((value) => [field, value]),
      ),
      ...['productId', 'productTitle', 'productHandle'].flatMap((field): [string, unknown][] =>
        [undefined, null, ''].map((value) => [field, value]),
      ),
      ...['productId', 'productHandle', 'image'].flatMap((field): [string, unknown][] =>
        ['a\u0000b', 'a\nb'].map((value) => [field, value]),
      ),
      ['productId', ' '],
      ['productId', 'x'.repeat(256)],
      ['variantId', 2002.5],
      ['variantId', 'x'.repeat(256)],
      ['variantId', 'a\u007fb'],
      ['productHandle', 'é'.repeat(128)],
      ['productTitle', 'x'.repeat(1_025)],
      ['variantTitle', 'x'.repeat(1_025)],
      ['variantTitle', 42],
      ['image', 'x'.repeat(2_049)],
      ...['price', 'compareAt'].flatMap((field): [string, unknown][] =>
        [
          undefined,
          79.9,
          '79',
          '79.9',
          '79.900',
          '-1.00',
          '1,00',
          '1e2',
          ' 1.00',
          '12345678901234567.00',
        ].map((value) => [field, value]),
      ),
      ['price', null],
      ['price', ''],
      ...[undefined, null, 0, -1, 1.5, '1', 4_294_967_296, 1e300, true].map((v): [string, unknown] => [
        'quantity',
        v,
      ]),
      ...[undefined, null, 'true', 1].map((value): [string, unknown] => ['inventoryAvailable', value]),
      ...['E', 'EURO', 'E1', 978].map((value): [string, unknown] => ['currencyCode', value]),
      ...['D', 'DEU', 'D1'].map((value): [string, unknown] => ['countryCode', value]),
      ...['x', 1, []].map((value): [string, unknown] => ['properties', value]),
      ...['PDP', 'shop', 1].map((value): [string, unknown] => ['source', value]),
    ];
    const before = await dumpRedis(redis, app.prefix);
    for (const [field, value] of refused) {
      const answer = await add(app, itemOf(who, { [field]: value }));
      const why = `${field} ${String(JSON.stringify(value)).slice(0, 40)}`;
      t.equal(answer.status, 400, why);
      t.ok(
        answer.json.issues.every(({ path }: { path: string }) => path === `/${field}`),
        why,
      );
    }
    const tooLarge = await add(app, itemOf(who, { properties: { a: 'x'.repeat(16_384 - 7) } }));
    t.match(tooLarge, { status: 413, json: { code: 'payload_too_large' } });
    t.same(await dumpRedis(redis, app.prefix), before, 'and nothing changed');
  });

  t.test('all faults of an item are listed', async (t) => {
    const { status, json } = await add(app, { identity: {}, price: 1, quantity: 0, source: 'x' });
    t.equal(status, 400);
    t.same(json.issues.map(({ path }: { path: string }) => path).sort(), [
      '/compareAt',
      '/identity',
      '/inventoryAvailable',
      '/price',
      '/productHandle',
      '/productId',
      '/productTitle',
      '/quantity',
      '/source',
    ]);
    const removal = await remove(app, { identity: { sessionId: 's' }, productId: '1', event: 'add' });
    t.same(removal.json.issues, [{ path: '/event', message: 'must be one of remove, moveToCart, null' }]);
  });

  t.test('wrong bodies for each operation change nothing', async (t) => {
    const good = itemOf({ sessionId: 'good' });
    await add(app, good);
    const removal = { identity: { sessionId: 'good' }, productId: '1001', variantId: '2002' };
    const wrongIdentities = [
      undefined,
      null,
      'good',
      [],
      {},
      { sessionId: null, customerId: null },
      { sessionId: 'null' },
      { sessionId: '' },
      { sessionId: 5 },
      { sessionId: 'good', device: 1 },
      { sessionId: 'good', email: 'none' },
      { sessionId: 'a\u0000' },
      { customerId: 'x'.repeat(256) },
    ];
    const bodies: [string, object, unknown[]][] = [
      ['/item/add', good, [undefined, [], 'x', 1, null]],
      [
        '/item/remove',
        removal,
        [
          undefined,
          [],
          null,
          without(removal, 'productId'),
          { ...removal, productId: 0 },
          { ...removal, productId: '' },
          { ...removal, variantId: -2002 },
          { ...removal, event: 'purchase' },
          { ...removal, event: true },
        ],
      ],
      ['/item/list', { identity: { sessionId: 'good' } }, [undefined, [], null, 'x']],
    ];
    const before = await dumpRedis(redis, app.prefix);
    for (const [path, right, wrong] of bodies) {
      for (const body of [...wrong, ...wrongIdentities.map((identity) => ({ ...right, identity }))]) {
        const answer = await app.post(path, body, TRUSTED);
        t.equal(answer.status, 400, `${path} ${JSON.stringify(body)?.slice(0, 80)}: ${answer.text}`);
      }
      for (const body of NOT_JSON)
        t.match(await app.post(path, body, TRUSTED), { status: 400, json: { code: 'invalid_json' } });
    }
    t.same(await dumpRedis(redis, app.prefix), before);
  });
});
