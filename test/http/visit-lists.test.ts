// POST /product/visit/list: the counts of many products in one answer; nothing is created, nothing is linked.

import t from 'tap';
import type { Counting } from '../../src/identity/counting.js';
import type { Doors } from '../../src/identity/doors.js';
import type { Drafts } from '../../src/identity/drafts.js';
import type { Linker } from '../../src/identity/link.js';
import type { Places } from '../../src/identity/places.js';
import { Visitors } from '../../src/identity/visitors.js';
import type { ProductLimit } from '../../src/visits/product-limit.js';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { identityOf } from '../harness/samples.js';

const PATH = '/product/visit/list';
const PUBLISHABLE = 'pk_0123456789abcdef';
const ORIGIN = 'https://shop.example';

const listOf = (identity: object, ...productHandles: unknown[]) => ({ identity, productHandles });

eachRedis(t, async (t, redis) => {
  const env = { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN, SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env });
  const visit = async (identity: object, ...handles: string[]): Promise<string> => {
    const answers = await Promise.all(handles.map((handle) => app.shop.visit(identity, handle)));
    return answers[0]?.profileId as string;
  };
  const list = async (identity: object, ...handles: string[]) =>
    (await app.post(PATH, listOf(identity, ...handles), TRUSTED)).json;

  t.test('nothing is created and nothing linked; the profile is where a write would land', async (t) => {
    const session = await visit({ sessionId: 's-known' }, 'a', 'a');
    const customer = await visit({ customerId: 'c-known' }, 'a');
    await visit({ customerId: 'c-linked', sessionId: 's-linked' }, 'a', 'b');
    const cases: [string, Record<string, string>, string | undefined, number][] = [
      ['an unknown session', { sessionId: 's-new' }, undefined, 0],
      ['an unknown customer', { customerId: 'c-new' }, undefined, 0],
      ['two unknown ids', { customerId: 'c-new-2', sessionId: 's-new-2' }, undefined, 0],
      ['a linked session', { sessionId: 's-linked' }, undefined, 1],
      ['a linked customer', { customerId: 'c-linked', sessionId: 's-linked' }, undefined, 1],
      ['a known customer, an unknown session', { customerId: 'c-known', sessionId: 's-new' }, customer, 1],
      ['an unknown customer, a known session', { customerId: 'c-new', sessionId: 's-known' }, session, 2],
      ['both known, not linked yet', { customerId: 'c-known', sessionId: 's-known' }, customer, 1],
    ];
    const before = await dumpRedis(redis, app.prefix);
    const profiles: string[] = [];
    for (const [what, ids, expected, count] of cases) {
      const { profileId, counts } = await list(ids, 'a', 'none');
      t.same(counts, { a: count, none: 0 }, what);
      if (expected !== undefined) t.equal(profileId, expected, what);
      const read = await app.get(withQuery('/product/visit', { ...ids, productHandle: 'a' }), TRUSTED);
      t.same(read.json, { profileId, productHandle: 'a', count }, `${what}: as a single read`);
      profiles.push(profileId);
    }
    t.same(await dumpRedis(redis, app.prefix), before, 'nothing was written');
    for (const [i, [what, identity]] of cases.slice(0, 3).entries())
      t.equal(await visit(identity, 'a'), profiles[i], `${what}: its first write gets that profile`);
  });

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  t.test('each product has its count, once, 0 where nothing was recorded', async (t) => {
    const identity = { sessionId: 's-guest', device: 'mobile' };
    const profileId = await visit(identity, 'a', 'b', 'a', 'c');
    const answer = await app.post(PATH, listOf(identity, 'b', 'a', 'none', 'b'));
    t.match(answer, { status: 200, headers: { 'content-type': 'application/json' } });
    t.equal(answer.text, `{"profileId":"${profileId}","counts":{"b":1,"a":2,"none":0}}`);
  });

  t.test('handles that mean something to JavaScript or JSON are just names', async (t) => {
    const names = ['__proto__', 'constructor', 'toString', '"quoted"', 'back\\slash', '1', '😀', 'a b'];
    await visit({ sessionId: 'names' }, ...names);
    const { text, json } = await app.post(PATH, listOf({ sessionId: 'names' }, ...names, 'hasOwnProperty'));
    t.equal(Object.keys(json.counts).length, names.length + 1);
    t.match(text, '{"__proto__":1,"constructor":1,');
    t.match(text, ',"hasOwnProperty":0}');
  });

  t.test('100 products are taken; every fault is named by its path', async (t) => {
    const handles = Array.from({ length: 101 }, (_, i) => `p${i}`);
    const full = await list({ sessionId: 'limits' }, ...handles.slice(0, 100));
    t.equal(Object.keys(full.counts).length, 100);
    const who = { sessionId: 's-guest' };
    const cases: [body: unknown, paths: string[]][] = [
      [listOf(who, ...handles), ['/productHandles']],
      [listOf(who), ['/productHandles']],
      [listOf(who, 'a', '', 5, null, 'x'.repeat(256)), [1, 2, 3, 4].map((i) => `/productHandles/${i}`)],
      [listOf({ sessionId: 'null' }, ''), ['/identity/sessionId', '/productHandles/0']],
      [{}, ['/identity', '/productHandles']],
      [{ identity: {}, productHandles: 'a' }, ['/identity', '/productHandles']],
      ['null', ['']],
    ];
    const issuesOf = async (body: unknown) => {
      const { status, json } = await app.post(PATH, body);
      t.equal(status, 400);
      return json.issues.map(({ path }: { path: string }) => path);
    };
    for (const [body, paths] of cases) t.same(await issuesOf(body), paths, JSON.stringify(body).slice(0, 80));
    const long = await issuesOf({ identity: who, productHandles: new Array(20_000).fill(0) });
    t.equal(long.length, 102, 'the list, and its first 101 entries');
    const typed = { 'content-type': 'text/plain' };
    t.match(await app.post(PATH, listOf(who, 'a'), typed), { status: 415 });
  });

  t.test('without the right to link, both ids read the customer', async (t) => {
    const open = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' }, prefix: app.prefix });
    const ids = { customerId: 'c-open', sessionId: 's-open' };
    await visit({ sessionId: 's-open' }, 'a', 'a');
    t.same((await list(ids, 'a')).counts, { a: 2 }, "the session's, which a link would give");
    const answer = await open.post(PATH, listOf(ids, 'a'));
    const customer = await visit({ customerId: 'c-open' }, 'a');
    t.same(answer.json, { profileId: customer, counts: { a: 0 } });
  });

  t.test('a caller reads lists of those whose visits it may read', async (t) => {
    await visit({ sessionId: 's' }, 'a');
    await visit({ customerId: '7' }, 'a', 'a');
    const bySession = listOf({ sessionId: 's' }, 'a');
    const byCustomer = listOf({ customerId: '7' }, 'a');
    const browser = { 'x-api-key': PUBLISHABLE, origin: ORIGIN };
    t.same((await app.post(PATH, bySession)).json.counts, { a: 1 });
    t.same((await app.post(PATH, bySession, browser)).json.counts, { a: 1 });
    for (const body of [byCustomer, listOf({ customerId: '7', sessionId: 's' }, 'a')]) {
      t.match(await app.post(PATH, body), { status: 401, json: { code: 'unauthorized' } });
      t.match(await app.post(PATH, body, browser), { status: 403, json: { code: 'forbidden' } });
    }
    t.same((await postProxied(app, PATH, '7', bySession)).json.counts, { a: 2 }, 'for who is logged in');
    t.same((await postProxied(app, PATH, '', bySession)).json.counts, { a: 1 });
    t.match(await postProxied(app, PATH, '8', byCustomer), { status: 403 });
  });
});

// Between two batches of one request Redis does what others ask, for microseconds: too short for a test with a server.
t.test('an answer is about one profile: what was read while the visitor moved is read again', async (t) => {
  const moves = (rounds: number) => {
    let reads = 0;
    const enter = async () => {
      const isAtNew = reads++ % 2 === 1 || reads > 2 * rounds;
      return { profileId: isAtNew ? 'new' : 'old', count: isAtNew ? 7 : 1, known: true };
    };
    return new Visitors(
      {} as Doors,
      {} as Places,
      { enter } as unknown as Counting,
      {} as Drafts,
      {} as Linker,
      {} as ProductLimit,
    );
  };
  const read = (rounds: number) => moves(rounds).readAll(identityOf({ sessionId: 's' }), true, ['a', 'b']);
  for (const rounds of [0, 3]) t.same(await read(rounds), { profileId: 'new', counts: [7, 7] });
  await t.rejects(read(100), { code: 'unavailable' }, 'not for ever');
});
