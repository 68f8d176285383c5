// POST /product/visit/list: the counts of many products in one answer; nothing is created, nothing is linked.

import t, { type Test } from 'tap';
import type { Counting } from '../../src/identity/counting.js';
import type { Doors } from '../../src/identity/doors.js';
import type { Drafts } from '../../src/identity/drafts.js';
import type { Guests } from '../../src/identity/guests.js';
import type { Linker } from '../../src/identity/link.js';
import type { Places } from '../../src/identity/places.js';
import { Visitors } from '../../src/identity/visitors.js';
import type { Identity } from '../../src/identity-rules.js';
import type { ProductLimit } from '../../src/visits/product-limit.js';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis, type TestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

const VISIT = '/product/visit';
const PATH = '/product/visit/list';
const PUBLISHABLE = 'pk_0123456789abcdef';
const ORIGIN = 'https://shop.example';

const listOf = (identity: object, ...productHandles: unknown[]) => ({ identity, productHandles });

async function visit(app: TestApp, identity: object, ...handles: string[]): Promise<string> {
  const answers = await Promise.all(
    handles.map((productHandle) => app.post(VISIT, { identity, productHandle }, TRUSTED)),
  );
  return answers[0]?.json.profileId;
}

/** Lists, and says so where that changed anything. */
async function list(t: Test, redis: TestRedis, app: TestApp, identity: object, ...handles: string[]) {
  const before = await dumpRedis(redis, app.prefix);
  const answer = await app.post(PATH, listOf(identity, ...handles), TRUSTED);
  t.equal(answer.status, 200, answer.text);
  t.same(await dumpRedis(redis, app.prefix), before, 'nothing was written');
  return answer.json;
}

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });

  t.test('each product that was asked for has its count, 0 where nothing was recorded', async (t) => {
    const identity = { sessionId: 's-guest', device: 'mobile' };
    const profileId = await visit(app, identity, 'a', 'b', 'a', 'c');
    const answer = await app.post(PATH, listOf(identity, 'b', 'a', 'none'));
    t.match(answer, { status: 200, headers: { 'content-type': 'application/json' } });
    t.equal(answer.text, `{"profileId":"${profileId}","counts":{"b":1,"a":2,"none":0}}`);
  });

  t.test('a product that is named twice is answered once', async (t) => {
    const profileId = await visit(app, { sessionId: 'twice' }, 'a');
    const { text } = await app.post(PATH, listOf({ sessionId: 'twice' }, 'a', 'b', 'a'));
    t.equal(text, `{"profileId":"${profileId}","counts":{"a":1,"b":0}}`);
  });

  t.test(
    'a page of one whom this process has not met asks for them once, not once for each product',
    async (t) => {
      const other = await startApp(t, redis, { prefix: app.prefix });
      await visit(app, { sessionId: 'unmet' }, 'p1');
      const handles = Array.from({ length: 100 }, (_, i) => `p${i}`);
      const calls = async () =>
        /duration_seconds_count\{script="meet"\} (\d+)/.exec(await other.figures())?.[1];
      const page = () => other.post(PATH, listOf({ sessionId: 'unmet' }, ...handles));
      t.equal((await page()).json.counts.p1, 1);
      t.equal(await until('it was met', calls), '1');
      await list(t, redis, other, { sessionId: 'unmet' }, ...handles);
      t.equal(await calls(), '1', 'and not again');
    },
  );

  t.test('handles that are names of things are just names', async (t) => {
    const names = ['__proto__', 'constructor', 'toString', '"quoted"', 'back\\slash', '1', '😀', 'a b'];
    await visit(app, { sessionId: 'names' }, ...names);
    const { text, json } = await app.post(PATH, listOf({ sessionId: 'names' }, ...names, 'hasOwnProperty'));
    t.same(new Map<string, unknown>(Object.entries(json.counts)).size, names.length + 1);
    t.match(text, '{"__proto__":1,"constructor":1,');
    t.match(text, ',"hasOwnProperty":0}');
  });

  t.test('100 products are taken, none and 101 are not', async (t) => {
    const handles = Array.from({ length: 101 }, (_, i) => `p${i}`);
    await visit(app, { sessionId: 'limits' }, ...handles);
    const full = await app.post(PATH, listOf({ sessionId: 'limits' }, ...handles.slice(0, 100)));
    t.same(full.json.counts, Object.fromEntries(handles.slice(0, 100).map((handle) => [handle, 1])));
    for (const [wrong, message] of [
      [handles, 'must have at most 100'],
      [[], 'must have at least 1'],
    ] as const) {
      t.match(await app.post(PATH, listOf({ sessionId: 'limits' }, ...wrong)), {
        status: 400,
        json: { code: 'invalid_request', issues: [{ path: '/productHandles', message }] },
      });
    }
  });

  t.test(
    'every fault is told, by its path; of a list that is far too long, as many as may be in one',
    async (t) => {
      const faults = async (body: unknown) => {
        const { status, json } = await app.post(PATH, body);
        t.equal(status, 400);
        return json.issues.map(({ path }: { path: string }) => path);
      };
      t.same(await faults(listOf({ sessionId: 's-guest' }, 'a', '', 5, null, 'x'.repeat(256))), [
        '/productHandles/1',
        '/productHandles/2',
        '/productHandles/3',
        '/productHandles/4',
      ]);
      t.same(await faults(listOf({ sessionId: 'null' }, '')), ['/identity/sessionId', '/productHandles/0']);
      t.same(await faults({}), ['/identity', '/productHandles']);
      t.same(await faults({ identity: {}, productHandles: 'a' }), ['/identity', '/productHandles']);
      for (const body of ['null', '[]', '"productHandles"']) t.same(await faults(body), [''], body);
      const long = await faults({
        identity: { sessionId: 's-guest' },
        productHandles: new Array(20_000).fill(0),
      });
      t.equal(long.length, 102, 'the list, and its first 101 entries');
      t.match(await app.post(PATH, '{'), { status: 400, json: { code: 'invalid_json' } });
      t.match(await app.post(PATH, 'x'.repeat(65_537)), { status: 413 });
      const typed = { 'content-type': 'text/plain' };
      t.match(await app.post(PATH, listOf({ sessionId: 's-guest' }, 'a'), typed), { status: 415 });
    },
  );

  t.test('nothing is created and nothing linked; the profile is where a write would land', async (t) => {
    const session = await visit(app, { sessionId: 's-known' }, 'a', 'a');
    const customer = await visit(app, { customerId: 'c-known' }, 'a');
    await visit(app, { customerId: 'c-linked', sessionId: 's-linked' }, 'a', 'b');
    const cases: [string, object, string | undefined, number][] = [
      ['an unknown session', { sessionId: 's-new' }, undefined, 0],
      ['an unknown customer', { customerId: 'c-new' }, undefined, 0],
      ['two unknown ids', { customerId: 'c-new-2', sessionId: 's-new-2' }, undefined, 0],
      ['a linked session', { sessionId: 's-linked' }, undefined, 1],
      ['a linked customer', { customerId: 'c-linked', sessionId: 's-linked' }, undefined, 1],
      ['a known customer, an unknown session', { customerId: 'c-known', sessionId: 's-new' }, customer, 1],
      [
        "an unknown customer, who gets the session's",
        { customerId: 'c-new', sessionId: 's-known' },
        session,
        2,
      ],
      ['both known, not linked yet', { customerId: 'c-known', sessionId: 's-known' }, customer, 1],
    ];
    for (const [what, identity, expected, count] of cases) {
      const { profileId, counts } = await list(t, redis, app, identity, 'a', 'none');
      t.same(counts, { a: count, none: 0 }, what);
      if (expected !== undefined) t.equal(profileId, expected, what);
      const ids = identity as Record<string, string>;
      const read = await app.get(withQuery(VISIT, { ...ids, productHandle: 'a' }), TRUSTED);
      t.same(read.json, { profileId, productHandle: 'a', count }, `${what}: as a single read`);
    }
    for (const [what, identity] of cases.slice(0, 3)) {
      const { profileId } = await list(t, redis, app, identity, 'a');
      t.equal(await visit(app, identity, 'a'), profileId, `${what}: its first write gets that profile`);
    }
  });

  t.test('without the right to link, both ids read the customer', async (t) => {
    await visit(app, { sessionId: 's-open' }, 'a', 'a');
    const both = listOf({ customerId: 'c-open', sessionId: 's-open' }, 'a');
    t.same(
      (await app.post(PATH, both, TRUSTED)).json.counts,
      { a: 2 },
      "the session's, which a link would give",
    );
    const answer = await app.post(PATH, both);
    const customer = await visit(app, { customerId: 'c-open' }, 'a');
    t.same(answer.json, { profileId: customer, counts: { a: 0 } });
  });
});

t.test('who may ask, and what is away', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const env = { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN, SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env });
  const bySession = listOf({ sessionId: 's' }, 'a');
  const byCustomer = listOf({ customerId: '7' }, 'a');
  const byBoth = listOf({ customerId: '7', sessionId: 's' }, 'a');
  await visit(app, { sessionId: 's' }, 'a');
  await visit(app, { customerId: '7' }, 'a', 'a');

  t.test('a caller reads lists of those whose visits it may read', async (t) => {
    const before = await dumpRedis(redis, app.prefix);
    const browser = { 'x-api-key': PUBLISHABLE, origin: ORIGIN };
    for (const body of [bySession, byCustomer, byBoth])
      t.equal((await app.post(PATH, body, TRUSTED)).status, 200);
    t.same((await app.post(PATH, bySession)).json.counts, { a: 1 });
    t.same((await app.post(PATH, bySession, browser)).json.counts, { a: 1 });
    for (const body of [byCustomer, byBoth]) {
      t.match(await app.post(PATH, body), { status: 401, json: { code: 'unauthorized' } });
      t.match(await app.post(PATH, body, browser), { status: 403, json: { code: 'forbidden' } });
    }
    t.same((await postProxied(app, PATH, '7', bySession)).json.counts, { a: 2 }, 'for who is logged in');
    t.same((await postProxied(app, PATH, '', bySession)).json.counts, { a: 1 });
    t.match(await postProxied(app, PATH, '8', byCustomer), { status: 403 });
    t.match(await app.post(PATH, bySession, { 'x-api-key': 'sk_wrong_0123456789' }), { status: 401 });
    const closed = await startApp(t, redis, { env: { VISIT_ACCESS: 'key' }, prefix: app.prefix });
    t.match(await closed.post(PATH, bySession), { status: 401 });
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('where Redis is away it is 503', async (t) => {
    const redis = await startTestRedis();
    const app = await startApp(t, redis, { timeoutMs: 500 });
    await redis.stop();
    for (const body of [bySession, byBoth]) {
      t.match(await app.post(PATH, body, TRUSTED), {
        status: 503,
        headers: { 'retry-after': '1' },
        json: { code: 'unavailable' },
      });
    }
  });
});

// Between two batches of one request Redis does what others ask, for microseconds: too short to meet with a server.
t.test('an answer is about one profile: what was read while the visitor moved is read again', async (t) => {
  const moves = (rounds: number) => {
    let reads = 0;
    const enter = async () => {
      const isAtNew = reads++ % 2 === 1 || reads > 2 * rounds;
      return { profileId: isAtNew ? 'new' : 'old', count: isAtNew ? 7 : 1, known: true };
    };
    const guests = { note() {} } as unknown as Guests;
    const counting = { enter } as unknown as Counting;
    return new Visitors(
      {} as Doors,
      {} as Places,
      guests,
      counting,
      {} as Drafts,
      {} as Linker,
      {} as ProductLimit,
    );
  };
  const who: Identity = {
    customerId: null,
    sessionId: 's',
    device: null,
    locale: null,
    email: null,
    firstName: null,
    lastName: null,
  };
  t.same(await moves(0).readAll(who, true, ['a', 'b']), { profileId: 'new', counts: [7, 7] });
  t.same(await moves(3).readAll(who, true, ['a', 'b']), { profileId: 'new', counts: [7, 7] });
  await t.rejects(moves(100).readAll(who, true, ['a', 'b']), { code: 'unavailable' }, 'not for ever');
});
