// What ids, handles, queries and blank text mean; whatever visitors write into them is data, and no command, key or script.

import { parse } from 'node:querystring';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { parseQuery } from '../../src/http/query.js';
import { isVisitorId, normaliseId } from '../../src/identity-rules.js';
import { createKeys } from '../../src/redis/keys.js';
import { productOf } from '../extras/alerts/fixtures.js';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { SECRET, signed } from '../harness/app-proxy.js';
import type { Headers } from '../harness/client.js';
import type { Dump } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { itemOf } from './wishlist.js';

const redis = await startTestRedis(t);
const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
const { add, event, exported, items, remove, visit } = app.shop;
const post = async (path: string, body: unknown) => {
  const answer = await app.post(path, body, TRUSTED);
  t.equal(answer.status, 200, `${path} ${JSON.stringify(body)}: ${answer.text}`);
  return answer.json;
};
t.test(
  'integer, text and gid of a customer are the same customer, with surrounding blanks or without',
  async (t) => {
    const ids = [42, '42', ' 42 ', 'gid://shopify/Customer/42', ' gid://shopify/Customer/42 '];
    const counts = [];
    for (const customerId of ids) counts.push((await visit({ customerId })).count);
    t.same(counts, [1, 2, 3, 4, 5]);
    t.equal(await app.shop.count({ customerId: 'gid://shopify/Customer/42' }, ' red-shoe '), 5);
  },
);
t.test('an id that only looks like a gid stays as it is, and a session id is no customer id', async (t) => {
  const gids = ['gid://shopify/Customer/47x', 'gid://shopify/Customer/', 'gid://other/Customer/4711'];
  const customers = [...gids, '04711', '4711'].map((customerId) => ({ customerId }));
  const different = [...customers, { sessionId: '4711' }];
  const profiles = await Promise.all(different.map((identity) => visit(identity)));
  t.equal(new Set(profiles.map(({ profileId }) => profileId)).size, different.length);
});
t.test(
  'integer, text and gid of a product and its variant are one item, which is listed with digits',
  async (t) => {
    const identity = { sessionId: 'shopper' };
    const expected = { productId: '1001', variantId: '2002' };
    for (const [productId, variantId] of [
      [1001, 2002],
      ['1001', '2002'],
      ['gid://shopify/Product/1001', ' gid://shopify/ProductVariant/2002 '],
    ]) {
      t.match(await add(identity, { productId, variantId }), expected);
      t.equal((await items(identity)).length, 1);
      t.match(await remove(identity, { productId, variantId }), { removed: true, ...expected });
      await event(identity, 'share', { productId, variantId });
      t.match((await app.events(identity)).at(-1), { product_id: '1001', variant_id: '2002' });
      await add(identity, expected);
    }
  },
);
t.test('ids of up to 255 bytes are accepted, and differ by their last byte', async (t) => {
  const full = ['x'.repeat(255), `${'é'.repeat(127)}x`, `${'€'.repeat(85)}`, `${'😀'.repeat(63)}xxx`];
  for (const name of full) {
    t.match(await visit({ sessionId: name }, name), { count: 1, productHandle: name });
    t.equal(await app.shop.count({ sessionId: name }, name), 1);
  }
  const [name = ''] = full;
  const spaced = await visit({ sessionId: `  ${name}\n` }, name);
  t.equal(spaced.count, 2, 'blanks around an id are not counted');
  for (const end of ['a', 'b'])
    t.match(await visit({ sessionId: 'x'.repeat(254) + end }, 'long'), { count: 1 });
});
t.test(
  'every operation accepts and returns a product handle of 255 characters, which are 1,020 bytes',
  async (t) => {
    const handles = ['a', 'b'].map((end) => `${'😀'.repeat(254)}${end}`).concat('😀'.repeat(255));
    const handle = handles[2] as string;
    const identity = { sessionId: 'astral' };
    for (const [n, one] of handles.entries()) {
      const visits = Array.from({ length: n + 1 }, () => ({ identity, productHandle: ` ${one} ` }));
      const { results } = await post('/product/visit/batch?count=true', { visits });
      const counts = results.map(({ count }: { count: number }) => count).sort();
      t.same(counts, [1, 2, 3].slice(0, n + 1));
      t.ok(results.every(({ productHandle }: { productHandle: string }) => productHandle === one));
    }
    const { counts } = await post('/product/visit/list', { identity, productHandles: handles });
    t.same(
      Object.entries(counts),
      handles.map((one, n) => [one, n + 1]),
    );
    t.match(await visit(identity, handle), { productHandle: handle, count: 4 });
    t.equal(await app.shop.count(identity, handle), 4);
    t.match(await app.shop.reset(identity, handles[0]), { productHandle: handles[0] });
    const other = withQuery('/product/visit', { ...identity, productHandle: handles[1] as string });
    t.match(await app.del(other, undefined, TRUSTED), { status: 200, json: { productHandle: handles[1] } });

    await add(identity, { productHandle: handle });
    t.match(await items(identity), [{ productHandle: handle }]);
    const kept = await exported(identity);
    t.same([kept.visits, kept.items[0].productHandle], [{ [handle]: 4 }, handle]);
    const { code } = await app.shop.share(identity);
    t.match((await app.get(`/share/${code}/items`, TRUSTED)).json, { items: [{ productHandle: handle }] });
    t.match((await app.get(`/wishlist/share/${code}`)).text, `/products/${encodeURIComponent(handle)}`);
    t.match(await app.events(identity), [{ type: 'add', product_handle: handle }, { type: 'share' }]);
    const product = { ...productOf('1', { price: '1.00' }), productHandle: handle };
    t.equal((await app.send('PUT', '/products', product, TRUSTED)).status, 200);
  },
);
t.test('unknown parameters of a query are ignored', async (t) => {
  const body = { identity: { sessionId: 'more' }, productHandle: 'x' };
  t.match(await post('/product/visit?count=true&utm_source=x&utm=%FF', body), { count: 1 });
  const read = await app.get('/product/visit?sessionId=more&productHandle=x&utm=1&utm=2');
  t.match(read, { json: { count: 1 } });
});
t.test('handles are trimmed in every request', async (t) => {
  const identity = { sessionId: 'trimmer' };
  const visited = await post('/product/visit', { identity, productHandle: ' hat\u00a0' });
  t.match(visited, { productHandle: 'hat' });
  const list = { identity, productHandles: ['hat ', 'hat', ' red-shoe'] };
  t.same((await post('/product/visit/list', list)).counts, { hat: 1, 'red-shoe': 0 });
  const batch = { visits: [{ identity, productHandle: ' hat' }] };
  const { results } = await post('/product/visit/batch?count=true', batch);
  t.match(results, [{ productHandle: 'hat', count: 2 }]);
  await visit(identity, `${' '.repeat(300)}x`);
});
for (const [n, blank] of ['', ' \t\n', '\u00a0'].entries())
  t.test(`${JSON.stringify(blank)} in an optional field means null`, async (t) => {
    const facts = { device: blank, locale: blank, email: blank, firstName: blank, lastName: blank };
    const sessionId = `identity ${n}`;
    const identity = { sessionId, customerId: blank, ...facts };
    const plain = await post('/product/visit', { identity: { sessionId }, productHandle: 'x' });
    t.same(await post('/product/visit', { identity, productHandle: 'x' }), plain);
    const visits = [{ identity, productHandle: 'x' }];
    t.same(await post('/product/visit/batch', { visits }), { results: [plain] });
    const { profileId } = plain;
    t.match(await post('/event', { identity, type: 'add', payload: blank }), { profileId });
    t.match(await post('/profile/guest', identity), { profileId });
    t.match(await post('/item/list', { identity }), { profileId });
    t.match(await post('/share', { identity, channel: blank }), { code: String });
    const events = [
      { type: 'add', payload: '{}' },
      { type: 'share', channel: 'Link' },
    ];
    t.match(await app.events({ sessionId }), events);
    const kept = await exported({ sessionId, customerId: blank, email: blank });
    t.same(kept.profile, {}, 'no fact was learned');
    t.same(kept.identities, { customerIds: [], sessionIds: [sessionId] });
    await visit({ customerId: `${7000 + n}`, sessionId: blank, ...facts });

    const wisher = { sessionId: `item ${n}` };
    const titles = ['variantTitle', 'image', 'compareAt', 'currencyCode', 'countryCode'];
    const optional = ['variantId', ...titles, 'properties'];
    const blanks = Object.fromEntries([...optional, 'source'].map((field) => [field, blank]));
    t.equal((await add(wisher, blanks)).variantId, null);
    const [item] = await items(wisher);
    for (const field of optional) t.equal(item[field], null, field);
    t.equal(item.source, 'pdp');
    const removed = await remove(wisher, { variantId: blank, event: blank });
    t.match(removed, { removed: true, variantId: null });
    t.equal((await app.events(wisher)).at(-1)?.['type'], 'remove');

    const given = { sessionId: 'query', customerId: blank, device: blank, productHandle: 'x' };
    t.equal((await app.get(withQuery('/product/visit', given), TRUSTED)).json.count, 0);
    t.match(await app.del(withQuery('/product/visit', given), undefined, TRUSTED), { status: 200 });
    const query = { customerId: blank, sessionId: blank, productHandle: 'x', logged_in_customer_id: '77' };
    const answer = await app.get(withQuery('/product/visit', signed(query)));
    t.match(answer, { status: 200 }, 'the signature names the customer');
  });
t.test('control characters in titles become spaces', async (t) => {
  const identity = { sessionId: 'titles' };
  await add(identity, { productTitle: 'Red\tshoe\u0000\u0085', variantTitle: '4\r\n2' });
  const titles = { productTitle: 'Red shoe  ', variantTitle: '4  2' };
  t.match((await items(identity))[0], titles);
  const [added] = await app.events(identity);
  t.match(JSON.parse(String(added?.['payload'])), titles);
});
t.test('a byte order mark before JSON is skipped', async (t) => {
  const body = JSON.stringify({ identity: { sessionId: 'mark' }, productHandle: 'x' });
  t.match(await post('/product/visit?count=true', `\ufeff${body}`), { count: 1 });
  const order = '{"id":820982911946154508,"currency":"EUR","line_items":[{"product_id":5,"price":1}]}';
  await post('/webhook/purchase', `\ufeff${order}`);
  t.equal((await app.post('/product/visit', `\ufeff\ufeff${body}`)).json.code, 'invalid_json');
});
t.test('a body with a Content-Encoding is 415, and the error names that header', async (t) => {
  const body = { identity: { sessionId: 'encoded' }, productHandle: 'x' };
  const refused = { status: 415, json: { code: 'unsupported_media_type', error: /Content-Encoding/ } };
  for (const encoding of ['gzip', 'br', 'GZIP', ['identity', 'gzip']])
    t.match(await app.post('/product/visit', body, { 'content-encoding': encoding }), refused);
  for (const encoding of ['identity', 'Identity', ''])
    t.equal((await app.post('/product/visit', body, { 'content-encoding': encoding })).status, 200);
});
t.test('a query is read as node:querystring reads it', async (t) => {
  const names = ['a', 'sessionId', '__proto__', 'toString'];
  const piece = fc.constantFrom(...names, '&', '&', '=', '=', '%20', '+', 'é', '', '?', '#', '%');
  const query = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(query, (raw) => {
      if (/%(?!20)/.test(raw)) return true;
      const [ours, theirs] = [parseQuery(raw), parse(raw)];
      return [...names, ...Object.keys(theirs)].every((name) =>
        isDeepStrictEqual(ours.get(name), Object.hasOwn(theirs, name) ? theirs[name] : undefined),
      );
    }),
    { numRuns: 1_000 },
  );
  t.same(parseQuery('a=1&b=2&a=3').get('a'), ['1', '3']);
  t.equal(parseQuery('a=1&b=2&a=3').get('b'), '2');
  for (const wrong of ['%', '%zz', '%ff', '%c3', '%ed%a0%80'])
    t.equal(parseQuery(`a=${wrong}`).get('a'), '\ud800', `${wrong}: a lone surrogate`);
  // uWebSockets.js decodes the bytes of a query: invalid UTF-8 becomes U+FFFD.
  for (const raw of ['a=x\ufffd', 'a=x\ufffd&b=%20'])
    t.equal(parseQuery(raw).get('a'), 'x\ud800', `${raw}: a lone surrogate`);
  t.equal(parseQuery('a=%EF%BF%BD').get('a'), '\ufffd');
});

const PATH = '/product/visit';
const RUNS = process.env.FAULTS === 'full' ? 3_000 : 80;
/** Texts that have broken protocols, scripts and key schemes elsewhere. */
const NASTY = [
  ...['\r\nFLUSHALL\r\n', '*1\r\n$8\r\nFLUSHALL\r\n', '\0', 'a\nb', 'a\n0.AAAA\nb'],
  ...["') redis.call('FLUSHALL') --", "]] redis.call('FLUSHALL') --[[", 'KEYS[1]', 'ARGV[1]'],
  ...['{0}', '}{', '{e0}:events', ':ids', '0.AAAA', 's:other', 'c:1', 'V', '*', '?', '[a-z]'],
  ...['\\', '"', '"}', '__proto__', 'constructor', '%s%n', '$(id)', '../../etc/passwd'],
  ...['\u2028', '\ufeff', '\uffff', '\u202e', '-1', '1e309'],
];
const piece = fc.oneof(
  fc.constantFrom(...NASTY),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: 'grapheme', maxLength: 60 }),
  fc.uint8Array({ maxLength: 255 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
);
const text = fc.array(piece, { minLength: 1, maxLength: 3 }).map((pieces) => pieces.join(''));
/** For the name of an assertion: TAP interprets some characters. */
const shown = (value: unknown) => encodeURIComponent(JSON.stringify(value).toWellFormed());
t.test('injection', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const app = await startApp(t, redis, { env: { GUEST_RETENTION_DAYS: '0' } });
  await client.set('canary', 'alive');
  const keys = createKeys(app.prefix);
  const fieldsAt = (dump: Dump, key: string) => (dump[key] ?? {}) as Readonly<Record<string, string>>;

  t.test('an id and a handle are refused or kept to the letter, and no other key changes', async (t) => {
    let [taken, refused] = [0, 0];
    const property = fc.asyncProperty(text, text, fc.boolean(), async (id, sent, isCustomer) => {
      const handle = sent.trim();
      const before = await app.dump();
      const identity = isCustomer ? { customerId: id } : { sessionId: id };
      const answer = await app.post(PATH, { identity, productHandle: sent }, TRUSTED);
      const after = await app.dump();
      if (answer.status === 400) {
        refused++;
        t.same(after, before);
        return;
      }
      taken++;
      t.equal(answer.status, 200);
      t.notMatch(normaliseId(id) + handle, /\p{Cc}/u, 'no control character is taken');
      t.equal(answer.json.productHandle, handle, shown(handle));
      t.ok(isVisitorId(id));
      const touched = Object.keys(after).filter((key) => !isDeepStrictEqual(after[key], before[key]));
      const { events, eventsState } = keys.visits;
      const expected = [keys.counts(answer.json.profileId), events(0), eventsState(0)];
      const others = touched.filter((key) => !expected.includes(key));
      t.same(others, [], shown([id, handle]));
      const query = { [isCustomer ? 'customerId' : 'sessionId']: id, productHandle: handle };
      const read = await app.get(withQuery(PATH, query), TRUSTED);
      const { profileId, count } = read.json;
      t.equal(profileId, answer.json.profileId, shown([id, answer.text, read.text]));
      const counts = fieldsAt(after, keys.counts(profileId));
      t.equal(counts[handle], String(count), shown([id, handle, read.text, counts]));
      await app.del(PATH, { identity, productHandle: handle }, TRUSTED);
      const facts = fieldsAt(await app.dump(), keys.profile(profileId));
      t.same(facts, { registered: '1' }, 'it stays registered when its count goes');
    });
    await fc.assert(property, { numRuns: RUNS, examples: NASTY.map((nasty) => [nasty, nasty, false]) });
    t.ok(taken > RUNS / 20 && refused > RUNS / 20, `${taken} taken, ${refused} refused`);
  });

  t.test('texts of items, events, profiles and idempotency keys come back to the letter', async (t) => {
    let n = 0;
    const bodies = new Map<string, string>();
    let [taken, refused] = [0, 0];
    const property = fc.asyncProperty(text, async (nasty) => {
      const sessionId = `writer-${n++}`;
      // firstName has the smallest limit of the three, and none may be empty or have control characters.
      const isText = nasty.trim() !== '' && Buffer.byteLength(nasty) <= 255 && !/\p{Cc}/u.test(nasty);
      const texts = { productTitle: nasty, properties: { [nasty]: nasty } };
      const added = await app.post('/item/add', itemOf({ sessionId, firstName: nasty }, texts), TRUSTED);
      t.equal(added.status, isText ? 200 : 400, shown(nasty));
      if (isText) {
        taken++;
        const { items } = (await app.post('/item/list', { identity: { sessionId } }, TRUSTED)).json;
        t.equal(items[0].productTitle, nasty, shown(nasty));
        // JSON may have a property `__proto__`; an object literal of JavaScript can't.
        if (nasty !== '__proto__') t.strictSame(items[0].properties, { [nasty]: nasty }, shown(nasty));
        const facts = fieldsAt(await app.dump(), keys.profile(added.json.profileId));
        t.equal(facts['firstName'], nasty, shown(nasty));
      } else refused++;
      const headers: Headers = {
        ...TRUSTED,
        'idempotency-key': `${sessionId} ${encodeURIComponent(nasty)}`.slice(0, 255),
      };
      const event = { identity: { sessionId }, type: 'share', payload: { nasty } };
      const first = await app.post('/event', event, headers);
      t.equal(first.status, 200, shown(nasty));
      t.equal((await app.post('/event', event, headers)).text, first.text, 'sent again');
      bodies.set(sessionId, nasty);
    });
    await fc.assert(property, { numRuns: Math.ceil(RUNS / 2), examples: NASTY.map((nasty) => [nasty]) });
    t.ok(taken > RUNS / 20 && refused > RUNS / 20, `${taken} taken, ${refused} refused`);
    const shares = (await app.rows()).filter(({ type }) => type === 'share');
    const kept = shares.map(({ session_id, payload }) => [session_id, JSON.parse(String(payload)).nasty]);
    t.strictSame(kept, [...bodies], 'each event is there once, with its payload');
  });

  t.test('after all hostile ids and texts Redis has only keys of the program', async (t) => {
    const isOurs = keyPattern(
      ...[keys.meta, keys.settings, keys.sweep, keys.pending(0), keys.share('*'), keys.request('*')],
      ...keys.allOf('*.*'),
      keys.erasedAt('*.*'),
      ...[keys.operation('*.*', '*'), keys.senderChannel('*', '*')],
      ...[keys.events(0), keys.eventsState(0), keys.eventsDead(0)],
      ...[keys.visits.events(0), keys.visits.eventsState(0), keys.visits.eventsDead(0)],
    );
    const others = (await client.keys('*')).filter((key) => key !== 'canary' && !isOurs.test(key));
    t.same(others, []);
    t.equal(await client.get('canary'), 'alive');
  });
});
