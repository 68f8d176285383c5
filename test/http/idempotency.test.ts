// Idempotency-Key: what was asked under a key is done once and answered alike.

import t from 'tap';
import { connectRedis } from '../../src/redis/client.js';
import { eachRedis, KEY, startApp, TRUSTED } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { rowsOf } from '../harness/stream.js';

const VISIT = '/product/visit?count=true';
const visit = (sessionId: string, productHandle = 'red-shoe') => ({ identity: { sessionId }, productHandle });
const event = (sessionId: string, type = 'add') => ({ identity: { sessionId }, type });
const key = (text: string, more = {}) => ({ 'idempotency-key': text, ...more });
const isRecord = (name: string) => name.includes('request:') || name.includes(':k:');

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const other = await startApp(t, redis, { prefix: app.prefix });
  const client = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 5_000 }, () => {});
  t.teardown(() => client.disconnect());
  const dump = () => dumpRedis(redis, app.prefix);
  const rowsOfSession = async (sessionId: string) =>
    (await rowsOf(redis, app)).filter((row) => row['session_id'] === sessionId);

  t.test('a visit under a key counts once, on every server, and answers as the first time', async (t) => {
    const first = await app.post(VISIT, visit('a'), key('k-1'));
    t.match(first, { status: 200, json: { count: 1 } });
    await app.shop.visit({ sessionId: 'a' });
    for (const server of [app, other])
      t.equal((await server.post(VISIT, visit('a'), key('k-1'))).text, first.text);
    t.equal(await app.shop.count({ sessionId: 'a' }), 2, 'one under the key, one without');
  });

  t.test('an event under a key is recorded once, also with both ids', async (t) => {
    const body = { ...event('b'), identity: { customerId: '7', sessionId: 'b' } };
    const first = await app.post('/event', body, key('k-1', TRUSTED));
    t.equal(first.status, 200);
    t.equal((await other.post('/event', body, key('k-1', TRUSTED))).text, first.text);
    t.equal((await rowsOfSession('b')).length, 1);
  });

  t.test('a key that was used for something else is 422, and nothing is done', async (t) => {
    const first = await app.post('/event', event('c'), key('k-2', TRUSTED));
    t.equal(first.status, 200);
    const before = await dump();
    for (const [path, body] of [
      ['/event', event('c', 'remove')],
      ['/event', event('d')],
      ['/product/visit', visit('c')],
    ] as const) {
      const answer = await other.post(path, body, key('k-2', TRUSTED));
      t.match(answer, { status: 422, json: { code: 'idempotency_key_reused' } });
    }
    t.same(await dump(), before);
    t.equal((await app.post('/event', event('c'), key('k-2', TRUSTED))).text, first.text);
  });

  t.test('each visitor of a storefront has keys of its own, and keeps them at a login', async (t) => {
    const shop = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
    const post = (sessionId: string, customer: string) =>
      shop.post(proxied('/event', { logged_in_customer_id: customer }), event(sessionId), key('1'));
    const guests = [await post('g-1', ''), await post('g-2', '')];
    t.not(guests[1]?.json.profileId, guests[0]?.json.profileId);
    t.equal((await post('g-1', '71')).text, guests[0]?.text, 'the retry of what the guest sent');
    t.equal((await rowsOf(redis, shop)).filter(({ origin }) => origin === 'event').length, 2);

    const alone = (customer: string) =>
      shop.post(proxied('/event', { logged_in_customer_id: customer }), { type: 'add' }, key('1'));
    const customers = [await alone('74'), await alone('75')];
    t.match(customers, [{ status: 200 }, { status: 200 }]);
    t.not(customers[1]?.json.profileId, customers[0]?.json.profileId, 'customers without a session, too');
    t.equal((await alone('74')).text, customers[0]?.text);

    const first = await post('shared', '72');
    const next = await post('shared', '73');
    t.not(next.json.profileId, first.json.profileId, 'the next person at the same device');
    t.equal((await post('shared', '73')).text, next.text);
  });

  t.test('duplicates that come at once are one', async (t) => {
    const requests = [
      [VISIT, visit('g')],
      ['/event', event('h')],
    ] as const;
    for (const [path, body] of requests) {
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, i) => (i % 2 ? app : other).post(path, body, key(path, TRUSTED))),
      );
      t.equal(answers.filter(({ status }) => status === 200).length, 40);
      t.equal(new Set(answers.map(({ text }) => text)).size, 1);
    }
    t.equal(await app.shop.count({ sessionId: 'g' }), 1);
    // Where the first takes longer than the others wait for it, they do it under its id: twice in the stream it is one event.
    t.equal(new Set((await rowsOfSession('h')).map((row) => JSON.stringify(row))).size, 1);
  });

  t.test('what a crashed server left unanswered is done once, also after a merge or move', async (t) => {
    /** Counts a visit whose server ends before it says so, or before it counts. */
    const crash = async (sessionId: string, isCounted: boolean) => {
      const before = new Set(Object.keys(await dump()));
      const answer = await app.post(VISIT, visit(sessionId), key('crash'));
      t.equal(answer.status, 200);
      for (const name of Object.keys(await dump())) {
        if (before.has(name)) continue;
        if (name.includes('request:')) t.equal(await client.hdel(name, 'answer'), 1);
        else if (!isCounted) await client.del(name);
      }
      return answer;
    };
    const link = (session: string, customer: string) =>
      app.shop.login({ customerId: `${session}-${customer}`, sessionId: session });
    const merge = async (session: string) => {
      await app.shop.visit({ customerId: `${session}-c` });
      t.match(await link(session, 'c'), { merged: true });
    };
    const cases: Record<
      string,
      [isCounted: boolean, total: number, between: (session: string) => Promise<unknown>]
    > = {
      'nothing-else': [true, 1, async () => {}],
      'the-session-is-adopted': [true, 1, (session) => link(session, 'c')],
      'the-session-is-merged': [true, 2, merge],
      'the-session-moves-on': [
        true,
        0,
        async (session) => {
          await link(session, 'c');
          await link(session, 'd');
        },
      ],
      'it-was-not-counted-and-the-session-is-merged': [
        false,
        2,
        async (session) => {
          await app.shop.visit({ sessionId: session }, 'blue-hat');
          await merge(session);
        },
      ],
    };
    for (const [session, [isCounted, total, between]] of Object.entries(cases)) {
      const first = await crash(session, isCounted);
      await between(session);
      const retries = await Promise.all(
        [app, other, other].map((server) => server.post(VISIT, visit(session), key('crash'))),
      );
      t.equal(new Set(retries.map(({ text }) => text)).size, 1, session);
      if (isCounted) t.equal(retries[0]?.text, first.text, session);
      else t.match(retries[0], { status: 200, json: { count: total } });
      t.equal(await app.shop.count({ sessionId: session }), total, `${session}: counted once`);
    }
  });
});

t.test('keys', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);
  const dump = async () => (await dumpRedis(redis, app.prefix)) as Record<string, unknown>;

  t.test('each secret key has keys of its own, also after the list has changed', async (t) => {
    const second = 'sk_test_of_another_server';
    const shared = await startApp(t, redis, { env: { API_KEYS: `${KEY},${second}` } });
    const by = (secret: string) => key('k', { authorization: `Bearer ${secret}` });
    t.equal((await shared.post('/event', event('one'), by(KEY))).status, 200);
    t.equal((await shared.post('/event', event('two'), by(second))).status, 200);
    t.equal((await rowsOf(redis, shared)).length, 2);
    const rotated = await startApp(t, redis, { env: { API_KEYS: second }, prefix: shared.prefix });
    t.equal((await rotated.post('/event', event('one'), by(second))).status, 422);
  });

  t.test('without a credential each visitor has keys of its own', async (t) => {
    const [one, two] = [
      await app.post(VISIT, visit('e'), key('1')),
      await app.post(VISIT, visit('f'), key('1')),
    ];
    t.match([one.json.count, two.json.count], [1, 1]);
    t.not(one.json.profileId, two.json.profileId);
  });

  t.test('a key has 1 to 255 bytes; an empty one is a mistake, not none', async (t) => {
    t.equal((await app.post(VISIT, visit('j'), key('x'.repeat(255)))).status, 200);
    const before = await dump();
    for (const wrong of ['', ' ', '\t', 'x'.repeat(256)])
      for (const [path, body] of [
        [VISIT, visit('j')],
        ['/event', event('j')],
      ] as const) {
        const refused = await app.post(path, body, key(wrong, TRUSTED));
        t.match(refused, { status: 400, json: { code: 'invalid_request' } }, path);
        t.same(refused.json.issues, [{ path: 'Idempotency-Key', message: 'must have 1 to 255 bytes' }]);
      }
    t.same(await dump(), before);
    t.equal((await app.post(VISIT, visit('j'), { 'x-empty': '' })).status, 200);
  });

  t.test('a request that was refused does not use up its key', async (t) => {
    t.equal((await app.post(VISIT, { productHandle: 'h' }, key('later'))).status, 400);
    t.match(await app.post(VISIT, visit('k'), key('later')), { status: 200, json: { count: 1 } });
  });

  t.test('what is kept of a request names no visitor, and is forgotten after 24 h', async (t) => {
    const client = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 5_000 }, () => {});
    t.teardown(() => client.disconnect());
    // With a blank: three letters are in every hundredth digest.
    const person = { email: 'ada@shop.example', firstName: 'Ada Augusta', lastName: 'Lovelace' };
    const body = { ...event('secret'), identity: { sessionId: 'secret', ...person } };
    await app.post('/event', body, key('personal', TRUSTED));
    const records = Object.entries(await dump()).filter(([name]) => isRecord(name));
    t.ok(records.length > 3);
    for (const [name, record] of records) {
      t.notMatch(
        JSON.stringify(record),
        /ada@shop|Ada Augusta|Lovelace/,
        `${name}: a digest, and what a retry needs`,
      );
      const seconds = await client.ttl(name);
      t.ok(seconds > 86_000 && seconds <= 86_400, `${name}: ${seconds} s`);
    }
  });
});
