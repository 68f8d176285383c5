// What themes and spreadsheets send as text: `"{{ customer.id }}"` of a guest is "", and so is every other field without
// a value; a title has a tab in it, a body begins with a byte order mark or is compressed.

import t from 'tap';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { signed } from '../harness/app-proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { eventsOf } from '../harness/stream.js';
import { itemOf, without } from './wishlist.js';

const SECRET = 'shpss_0123456789abcdef';
const BLANKS = ['', ' ', ' \t\n', '\u00a0'];

const redis = await startTestRedis();
t.teardown(() => redis.stop());
const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });

const post = async (path: string, body: unknown) => {
  const answer = await app.post(path, body, TRUSTED);
  t.equal(answer.status, 200, `${path} ${JSON.stringify(body)}: ${answer.text}`);
  return answer.json;
};
const isRefused = async (path: string, body: unknown, at: string) => {
  const { status, json } = await app.post(path, body, TRUSTED);
  t.equal(status, 400, `${path} ${JSON.stringify(body)}`);
  t.same(
    json.issues?.map(({ path }: { path: string }) => path),
    [at],
  );
};

for (const [n, blank] of BLANKS.entries()) {
  const name = JSON.stringify(blank);
  const facts = { device: blank, locale: blank, email: blank, firstName: blank, lastName: blank };

  t.test(`${name} in an optional field of an identity is as null`, async (t) => {
    const sessionId = `identity ${n}`;
    const identity = { sessionId, customerId: blank, ...facts };
    const plain = await post('/product/visit', { identity: { sessionId }, productHandle: 'x' });
    t.same(await post('/product/visit', { identity, productHandle: 'x' }), plain);
    const visits = [{ identity, productHandle: 'x' }];
    t.same(await post('/product/visit/batch', { visits }), { results: [plain] });
    t.match(await post('/event', { identity, type: 'add', payload: blank }), { profileId: plain.profileId });
    t.match(await post('/profile/guest', identity), { profileId: plain.profileId });
    t.match(await post('/item/list', { identity }), { profileId: plain.profileId });
    t.match(await post('/share', { identity, channel: blank }), { code: String });
    const events = await eventsOf(redis, app, { sessionId });
    t.same(
      events.map(({ type, channel }) => [type, channel]),
      [
        ['add', undefined],
        ['share', 'Link'],
      ],
    );
    t.same(JSON.parse(events[0]?.payload as string), {});
    const kept = (
      await app.get(withQuery('/profile', { sessionId, customerId: blank, email: blank }), TRUSTED)
    ).json;
    t.same(kept.profile, {}, 'no fact was learned');
    t.same(kept.identities, { customerIds: [], sessionIds: [sessionId] });
    const customer = { customerId: `${7000 + n}`, sessionId: blank, ...facts };
    await post('/product/visit', { identity: customer, productHandle: 'x' });
  });

  t.test(`${name} in an optional field of an item is as null`, async (t) => {
    const identity = { sessionId: `item ${n}` };
    const optional = [
      'variantId',
      'variantTitle',
      'image',
      'compareAt',
      'currencyCode',
      'countryCode',
      'properties',
    ];
    const blanks = Object.fromEntries([...optional, 'source'].map((field) => [field, blank]));
    const added = await post('/item/add', itemOf(identity, blanks));
    t.equal(added.variantId, null);
    const [item] = (await post('/item/list', { identity })).items;
    for (const field of optional) t.equal(item[field], null, field);
    t.equal(item.source, 'pdp');
    const removal = { identity, productId: 1001, variantId: blank, event: blank };
    t.match(await post('/item/remove', removal), { removed: true, variantId: null });
    t.equal((await eventsOf(redis, app, identity)).at(-1)?.type, 'remove');
  });

  t.test(`${name} in a query is as if it were not given`, async (t) => {
    const given = { sessionId: 'query', customerId: blank, device: blank, productHandle: 'x' };
    t.match(await app.get(withQuery('/product/visit', given), TRUSTED), { status: 200, json: { count: 0 } });
    t.match(await app.del(withQuery('/product/visit', given), undefined, TRUSTED), { status: 200 });
    const query = { customerId: blank, sessionId: blank, productHandle: 'x', logged_in_customer_id: '77' };
    const answer = await app.get(withQuery('/product/visit', signed(query, SECRET)));
    t.match(answer, { status: 200 }, 'the signature names the customer');
  });

  t.test(`${name} in a required field is an error`, async () => {
    const identity = { sessionId: 'required' };
    await isRefused('/product/visit', { identity, productHandle: blank }, '/productHandle');
    await isRefused(
      '/product/visit',
      { identity: { sessionId: blank, customerId: blank }, productHandle: 'x' },
      '/identity',
    );
    await isRefused('/event', { identity, type: blank }, '/type');
    for (const field of ['productId', 'productTitle', 'productHandle', 'price'])
      await isRefused('/item/add', itemOf(identity, { [field]: blank }), `/${field}`);
    await isRefused('/profile/guest', { sessionId: blank }, '/sessionId');
    await isRefused(
      '/profile/merge',
      { identity: { sessionId: 's', customerId: blank } },
      '/identity/customerId',
    );
  });
}

t.test('an item may have no image, and its share page has none either', async (t) => {
  for (const [sessionId, change] of Object.entries({ absent: {}, given: { image: null } })) {
    const identity = { sessionId };
    const item = without(itemOf(identity), 'image');
    await post('/item/add', { ...item, ...change });
    t.equal((await post('/item/list', { identity })).items[0].image, null);
    const { code } = await post('/share', { identity });
    const page = await app.get(`/wishlist/share/${code}`);
    t.equal(page.status, 200);
    t.notMatch(page.text, '<img');
    t.notMatch(page.text, 'og:image');
    await post('/item/remove', { identity, productId: 1001, variantId: 2002, event: 'moveToCart' });
    const { type, payload } = (await eventsOf(redis, app, identity)).at(-1) ?? {};
    t.equal(type, 'moveToCart');
    t.match(JSON.parse(payload as string), { productId: '1001', image: null });
  }
});

t.test('control characters in titles become spaces', async (t) => {
  const identity = { sessionId: 'titles' };
  const titles = { productTitle: 'Red\tshoe\u0000\u0085', variantTitle: '4\r\n2' };
  await post('/item/add', itemOf(identity, titles));
  const [item] = (await post('/item/list', { identity })).items;
  t.match(item, { productTitle: 'Red shoe  ', variantTitle: '4  2' });
  const [event] = await eventsOf(redis, app, identity);
  t.match(JSON.parse(event?.payload as string), { productTitle: 'Red shoe  ', variantTitle: '4  2' });
});

t.test('a byte order mark before JSON is skipped', async (t) => {
  const visit = { identity: { sessionId: 'mark' }, productHandle: 'x' };
  t.match(await app.post('/product/visit?count=true', `\ufeff${JSON.stringify(visit)}`), {
    status: 200,
    json: { count: 1 },
  });
  const order = { id: 820982911946154508n.toString(), line_items: [{ product_id: 5 }] };
  const body = `\ufeff${JSON.stringify(order).replace(/"(\d+)"/, '$1')}`;
  t.match(await app.post('/webhook/purchase', body, TRUSTED), { status: 200 });
  t.match(await app.post('/product/visit', `\ufeff\ufeff${JSON.stringify(visit)}`), {
    status: 400,
    json: { code: 'invalid_json' },
  });
});

t.test('a body with a Content-Encoding is 415, and the sentence says so', async (t) => {
  const visit = { identity: { sessionId: 'encoded' }, productHandle: 'x' };
  for (const encoding of ['gzip', 'br', 'GZIP', ['identity', 'gzip']]) {
    const answer = await app.post('/product/visit', visit, { 'content-encoding': encoding });
    t.match(answer, { status: 415, json: { code: 'unsupported_media_type', error: /Content-Encoding/ } });
  }
  for (const encoding of ['identity', 'Identity', ''])
    t.equal((await app.post('/product/visit', visit, { 'content-encoding': encoding })).status, 200);
});
