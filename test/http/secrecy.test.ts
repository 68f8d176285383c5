// What callers may not learn: whether an id exists, for those who may not see it; another's wishlist; a share code.
// (test/http/callers.test.ts has every operation times every caller.)

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { type Answer, type Headers, KEY, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { SECRET, signed as sign } from '../harness/app-proxy.js';
import { connectTo, dumpRedis } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
import { monitorRedis } from '../harness/monitor.js';
import { startTestRedis } from '../harness/redis.js';
import { itemOf } from './wishlist.js';

const PATH = '/product/visit';
const PUBLISHABLE = 'pk_0123456789abcdef';
const ORIGIN = 'https://shop.example';
const env = {
  PUBLISHABLE_KEYS: PUBLISHABLE,
  ALLOWED_ORIGINS: ORIGIN,
  SHOPIFY_SECRET: SECRET,
};

/** A query as Shopify's proxy signs it. */
const signed = (parameters: Readonly<Record<string, string>>, ageS = 0, secret = SECRET) =>
  `${new URLSearchParams(sign({ ...parameters, timestamp: String(Math.floor(Date.now() / 1000) - ageS) }, secret))}`;

/** All that tells one answer from another, but its id and its time. */
function shape({ status, headers, text }: Answer): unknown {
  const { date: _date, 'x-request-id': _id, ...rest } = headers;
  return { status, headers: rest, text };
}

t.test('secrecy', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  const app = await startApp(t, redis, { env });

  const known = { customerId: '4711', sessionId: 'known-session', productId: '1', code: '' };
  await app.post('/item/add', itemOf(known, { productId: known.productId }), TRUSTED);
  await app.post(PATH, { identity: known, productHandle: 'x' }, TRUSTED);
  known.code = (await app.post('/share', { identity: known }, TRUSTED)).json.code;
  const unknown = { customerId: '1174', sessionId: 'other-session', productId: '2', code: 'A'.repeat(16) };
  type Ids = typeof known;

  // What a process asks by itself: for its marks, for merges, every 5 s for requests of the shop's that are open.
  const { meta, merges, compliance } = createKeys(app.prefix);
  const own = keyPattern(meta, merges('*'), compliance);
  /** Watches what Redis is asked from now on, but what a process asks by itself. */
  const watch = async () => {
    const asked: string[] = [];
    const last = `${app.prefix}:asked`;
    const isOwn = (words: readonly string[]) =>
      /^(info|time|ping)$/i.test(words[0] ?? '') || words.some((word) => own.test(word));
    let told = () => {};
    const allTold = new Promise<void>((resolve) => {
      told = resolve;
    });
    const close = await monitorRedis(redis.url, (words) => {
      if (words[1] === last) told();
      else if (!isOwn(words)) asked.push(words.join(' '));
    });
    return async () => {
      await client.exists(last); // what came before it has been told when it is
      await allTold;
      close();
      return asked;
    };
  };

  const requests: Readonly<Record<string, (ids: Ids, headers: Headers, query: string) => Promise<Answer>>> = {
    visit: ({ customerId }, headers, query) =>
      app.post(`${PATH}?${query}`, { identity: { customerId }, productHandle: 'x' }, headers),
    read: ({ customerId }, headers, query) =>
      app.get(`${withQuery(PATH, { customerId, productHandle: 'x' })}${query && `&${query}`}`, headers),
    reset: ({ customerId }, headers, query) =>
      app.del(`${PATH}?${query}`, { identity: { customerId }, productHandle: 'x' }, headers),
    event: (ids, headers, query) =>
      app.post(`/event?${query}`, { identity: { sessionId: ids.sessionId }, type: 'add' }, headers),
    add: (ids, headers, query) =>
      app.post(
        `/item/add?${query}`,
        itemOf({ sessionId: ids.sessionId }, { productId: ids.productId }),
        headers,
      ),
    remove: (ids, headers, query) =>
      app.post(
        `/item/remove?${query}`,
        { identity: { sessionId: ids.sessionId }, productId: ids.productId },
        headers,
      ),
    list: (ids, headers, query) =>
      app.post(`/item/list?${query}`, { identity: { sessionId: ids.sessionId } }, headers),
    share: (ids, headers, query) =>
      app.post(`/share?${query}`, { identity: { sessionId: ids.sessionId } }, headers),
    shared: (ids, headers, query) => app.get(`/share/${ids.code}/items?${query}`, headers),
    guest: (ids, headers, query) =>
      app.post(`/profile/guest?${query}`, { sessionId: ids.sessionId }, headers),
    merge: ({ customerId, sessionId }, headers, query) =>
      app.post(`/profile/merge?${query}`, { identity: { customerId, sessionId } }, headers),
    purchase: ({ customerId }, headers, query) =>
      app.post(
        `/webhook/purchase?${query}`,
        { id: 1, customer: { id: Number(customerId) }, line_items: [] },
        headers,
      ),
  };
  const wrong: Readonly<Record<string, [Headers, string?]>> = {
    none: [{}],
    'a wrong Bearer': [{ authorization: 'Bearer sk_wrong_0123456789ab' }],
    'the beginning of a key': [{ authorization: `Bearer ${KEY.slice(0, -1)}` }],
    'Basic with a key': [{ authorization: `Basic ${KEY}` }],
    'a wrong X-API-Key': [{ 'x-api-key': 'sk_wrong_0123456789ab' }],
    'an unknown publishable key': [{ 'x-api-key': 'pk_wrong_0123456789', origin: ORIGIN }],
    'a publishable key of another origin': [{ 'x-api-key': PUBLISHABLE, origin: 'https://evil.example' }],
    'a publishable key in the query, without an origin': [{}, `key=${PUBLISHABLE}`],
    'a signature of another secret': [{}, signed({}, 0, 'other')],
    'a signature that is old': [{}, signed({}, 91)],
    'a webhook signature': [{ 'x-shopify-hmac-sha256': 'AAAA' }],
  };

  t.test(
    'to a caller who may not see it, an id that exists is like one that does not, for every operation',
    async (t) => {
      const before = await dumpRedis(redis, app.prefix);
      const askedOfRedis = await watch();
      for (const [operation, request] of Object.entries(requests)) {
        for (const [what, [headers, query = '']] of Object.entries(wrong)) {
          const found = await request(known, headers, query);
          t.ok([401, 403].includes(found.status), `${operation}, ${what}: ${found.status}`);
          t.same(shape(await request(unknown, headers, query)), shape(found), `${operation}, ${what}`);
        }
      }
      t.same(await askedOfRedis(), [], 'Redis was not even asked, so it takes no longer either');
      t.same(await dumpRedis(redis, app.prefix), before);
    },
  );

  t.test('reading a visitor who is known and one who is not gives answers of one shape', async (t) => {
    const reads = await Promise.all(
      [known, unknown].map(({ sessionId }) => app.get(withQuery(PATH, { sessionId, productHandle: 'x' }))),
    );
    const [one, other] = reads.map(({ json }) => json);
    t.same(Object.keys(one), Object.keys(other));
    t.equal(
      one.profileId.length - one.profileId.indexOf('.'),
      other.profileId.length - other.profileId.indexOf('.'),
    );
  });

  t.test('no caller but the shop itself reads the list of another', async (t) => {
    const list = (identity: object, query: string) => app.post(`/item/list?${query}`, { identity });
    const asGuest = signed({ logged_in_customer_id: '' });
    const asOther = signed({ logged_in_customer_id: '99' });
    t.equal((await list({ customerId: known.customerId }, asGuest)).status, 403, 'a guest names a customer');
    t.equal((await list({ customerId: known.customerId }, asOther)).status, 403, 'a customer names another');
    t.same((await list({ sessionId: 'mine' }, asGuest)).json.items, [], "a guest's own");
    t.same((await list({}, asOther)).status, 400);
    const borrowed = await list({ sessionId: known.sessionId }, asOther);
    t.match(borrowed, { status: 200, json: { items: [] } }, 'a customer with the session of another');
    t.match(
      await list({ customerId: known.customerId }, signed({ logged_in_customer_id: known.customerId })),
      {
        json: { items: [{ productId: known.productId }] },
      },
    );
    t.equal((await app.post('/item/list', { identity: { sessionId: known.sessionId } })).status, 401);
  });

  t.test('a share code has 64 bits and more: no character of it can be foretold', async (t) => {
    const codes = await Promise.all(
      Array.from({ length: 600 }, async (_, i) => {
        const identity = { sessionId: `sharer-${i}` };
        return (await app.post('/share', { identity }, TRUSTED)).json.code as string;
      }),
    );
    t.equal(new Set(codes).size, codes.length);
    let bits = 0;
    for (let place = 0; place < Math.min(...codes.map((code) => code.length)); place++) {
      const counts = new Map<string, number>();
      for (const { [place]: character = '' } of codes)
        counts.set(character, (counts.get(character) ?? 0) + 1);
      // Min-entropy: by the character that is there most often. 6 bits, drawn 600 times, look like 4.5 and more.
      bits += -Math.log2(Math.max(...counts.values()) / codes.length);
    }
    t.ok(bits >= 64, `${bits.toFixed(1)} bits are seen in ${codes.length} codes`);
    // Nor is a code made of the visitor: the same one elsewhere has another.
    const elsewhere = await startApp(t, redis, { env });
    const { code } = (await elsewhere.post('/share', { identity: { sessionId: 'sharer-0' } }, TRUSTED)).json;
    t.not(code, codes[0]);
  });

  t.test('an unknown code is 404, whatever it looks like', async (t) => {
    const codes = [
      unknown.code,
      known.code.slice(0, -1),
      `${known.code}A`,
      'x',
      '%00',
      '*',
      '..%2f',
      known.sessionId,
    ];
    const answers = await Promise.all(codes.map((code) => app.get(`/share/${code}/items`, TRUSTED)));
    for (const [i, answer] of answers.entries())
      t.same(shape(answer), shape(answers[0] as Answer), `${codes[i]}`);
    t.match(answers[0], { status: 404, json: { code: 'not_found' } });
  });
});
