// Idempotency-Key: what was asked under a key is done once and answered alike.

import t from 'tap';
import { connectRedis } from '../../src/redis/client.js';
import { eachRedis, KEY, startApp, TRUSTED } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import { rowsOf } from '../harness/stream.js';

const visit = (sessionId: string, productHandle = 'red-shoe') => ({ identity: { sessionId }, productHandle });
const event = (sessionId: string, type = 'add') => ({
  identity: { sessionId },
  type,
  payload: { productId: '1' },
});

eachRedis(t, async (t, redis) => {
  /** What names one visitor is the same on a cluster. */
  const isCluster = redis.urls.length > 1;
  const app = await startApp(t, redis);
  const other = await startApp(t, redis, { prefix: app.prefix });
  const key = (text: string, more = {}) => ({ 'idempotency-key': text, ...more });
  const count = async (sessionId: string, handle = 'red-shoe') =>
    (await app.get(`/product/visit?sessionId=${sessionId}&productHandle=${handle}`)).json.count;

  t.test('a visit under a key counts once, on every server, and answers as the first time', async (t) => {
    const first = await app.post('/product/visit?count=true', visit('a'), key('k-1'));
    t.match(first, { status: 200, json: { count: 1 } });
    await app.post('/product/visit', visit('a'));
    t.equal((await app.post('/product/visit?count=true', visit('a'), key('k-1'))).text, first.text);
    t.equal((await other.post('/product/visit?count=true', visit('a'), key('k-1'))).text, first.text);
    t.equal(await count('a'), 2, 'one under the key, one without');
  });

  t.test('an event under a key is recorded once, also with both ids', async (t) => {
    const identity = { customerId: '7', sessionId: 'b' };
    const first = await app.post('/event', { ...event('b'), identity }, key('k-1', TRUSTED));
    t.equal(first.status, 200);
    const again = await other.post('/event', { ...event('b'), identity }, key('k-1', TRUSTED));
    t.equal(again.text, first.text);
    t.equal((await rowsOf(redis, app)).filter((line) => line['session_id'] === 'b').length, 1);
  });

  t.test('a key that was used for something else is 422, and nothing is done', async (t) => {
    const first = await app.post('/event', event('c'), key('k-2', TRUSTED));
    t.equal(first.status, 200);
    const before = await dumpRedis(redis, app.prefix);
    const others = [
      () => app.post('/event', event('c', 'remove'), key('k-2', TRUSTED)),
      () => app.post('/event', event('d'), key('k-2', TRUSTED)),
      () => other.post('/product/visit', visit('c'), key('k-2', TRUSTED)),
    ];
    for (const send of others) {
      t.match(await send(), { status: 422, json: { code: 'idempotency_key_reused' } });
    }
    t.same(await dumpRedis(redis, app.prefix), before);
    t.equal((await app.post('/event', event('c'), key('k-2', TRUSTED))).text, first.text);
  });

  if (!isCluster)
    t.test('each secret key has keys of its own', async (t) => {
      const second = 'sk_test_of_another_server';
      const env = { API_KEYS: `${KEY},${second}` };
      const shared = await startApp(t, redis, { env });
      const by = (secret: string) => key('k', { authorization: `Bearer ${secret}` });
      t.match(await shared.post('/event', event('one'), by(KEY)), { status: 200 });
      t.match(await shared.post('/event', event('two'), by(second)), { status: 200 });
      t.equal((await rowsOf(redis, shared)).length, 2);
      const rotated = await startApp(t, redis, { env: { API_KEYS: second }, prefix: shared.prefix });
      t.equal(
        (await rotated.post('/event', event('one'), by(second))).status,
        422,
        'also after the list has changed',
      );
    });

  t.test('each visitor of a storefront has keys of its own, and keeps them at a login', async (t) => {
    const shop = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
    const post = (sessionId: string, customer: string) =>
      shop.post(proxied('/event', { logged_in_customer_id: customer }), event(sessionId), key('1'));
    const guests = [await post('g-1', ''), await post('g-2', ''), await post('g-3', '')];
    t.equal(new Set(guests.map(({ json }) => json.profileId)).size, 3);
    t.equal((await rowsOf(redis, shop)).length, 3);
    t.equal((await post('g-1', '71')).text, guests[0]?.text, 'the retry of what the guest sent');
    t.equal((await rowsOf(redis, shop)).filter(({ origin }) => origin === 'event').length, 3);

    const first = await post('shared', '72');
    const next = await post('shared', '73');
    t.not(next.json.profileId, first.json.profileId, 'the next person at the same device');
    t.equal((await post('shared', '73')).text, next.text);
  });

  if (!isCluster)
    t.test('without a credential each visitor has keys of its own', async (t) => {
      const one = await app.post('/product/visit?count=true', visit('e'), key('same'));
      const two = await app.post('/product/visit?count=true', visit('f'), key('same'));
      t.match([one.json.count, two.json.count], [1, 1]);
      t.not(one.json.profileId, two.json.profileId);
    });

  if (!isCluster)
    t.test('an empty key, which a client sends by mistake, is 400; no key is none', async (t) => {
      const before = await dumpRedis(redis, app.prefix);
      for (const empty of ['', ' ', '\t']) {
        for (const [path, body] of [
          ['/product/visit', visit('empty-key')],
          ['/event', event('empty-key')],
        ] as const) {
          const refused = await app.post(path, body, key(empty, TRUSTED));
          t.match(refused, { status: 400, json: { code: 'invalid_request' } }, path);
          t.same(refused.json.issues, [{ path: 'Idempotency-Key', message: 'must have 1 to 255 bytes' }]);
        }
      }
      t.same(await dumpRedis(redis, app.prefix), before);
      t.equal((await app.post('/product/visit', visit('empty-key'), { 'x-empty': '' })).status, 200);
    });

  t.test('duplicates that come at once are one', async (t) => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        (i % 2 ? app : other).post('/product/visit?count=true', visit('g'), key('at-once')),
      ),
    );
    t.same([...new Set(answers.map(({ text }) => text))].length, 1);
    t.equal(answers.filter(({ status }) => status === 200).length, 40);
    t.equal(await count('g'), 1);
  });

  t.test('events that come at once under one key are one', async (t) => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => app.post('/event', event('h'), key('events-at-once', TRUSTED))),
    );
    t.equal(answers.filter(({ status }) => status === 200).length, 40);
    t.equal(new Set(answers.map(({ text }) => text)).size, 1);
    // Where the first takes longer than the others wait for it, they do it under its id: twice in the stream it is one event.
    const rows = (await rowsOf(redis, app)).filter((line) => line['session_id'] === 'h');
    t.equal(new Set(rows.map((row) => JSON.stringify(row))).size, 1);
  });

  t.test(
    'what a crashed server left without an answer is done once, also after a merge or a move',
    async (t) => {
      const client = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 5_000 }, () => {});
      t.teardown(() => client.disconnect());
      /** The visit was counted, and its server ended before it could say so. */
      const crash = async (sessionId: string) => {
        const before = new Set(Object.keys(await dumpRedis(redis, app.prefix)));
        const answer = await app.post('/product/visit?count=true', visit(sessionId), key('crash'));
        t.equal(answer.status, 200);
        const made = Object.keys(await dumpRedis(redis, app.prefix)).filter((name) => !before.has(name));
        const [record] = made.filter((name) => name.includes('request:'));
        t.equal(await client.hdel(record as string, 'answer'), 1);
        return answer;
      };
      const link = (customerId: string, sessionId: string) =>
        app.post('/profile/merge', { identity: { customerId, sessionId } }, TRUSTED);
      const customer = (customerId: string) =>
        app.post('/product/visit', { identity: { customerId }, productHandle: 'red-shoe' }, TRUSTED);
      const cases: Record<string, [total: number, between: (session: string) => Promise<unknown>]> = {
        'nothing else': [1, async () => {}],
        'the session is adopted': [1, (session) => link(`${session}-c`, session)],
        'the session is merged': [
          2,
          async (session) => {
            await customer(`${session}-c`);
            t.match((await link(`${session}-c`, session)).json, { merged: true });
          },
        ],
        'the session moves on': [
          0,
          async (session) => {
            await link(`${session}-c`, session);
            await link(`${session}-d`, session);
          },
        ],
      };
      for (const [name, [total, between]] of Object.entries(cases)) {
        const session = `crash-${name.replaceAll(' ', '-')}`;
        const first = await crash(session);
        await between(session);
        const retries = await Promise.all(
          [app, other, other].map((server) =>
            server.post('/product/visit?count=true', visit(session), key('crash')),
          ),
        );
        for (const retry of retries) t.equal(retry.text, first.text, name);
        t.equal(await count(session), total, `${name}: counted once`);
      }
    },
  );

  t.test('a retry that comes before the first try was counted, after a merge: counted once', async (t) => {
    const client = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 5_000 }, () => {});
    t.teardown(() => client.disconnect());
    const before = new Set(Object.keys(await dumpRedis(redis, app.prefix)));
    await app.post('/product/visit?count=true', visit('late'), key('late'));
    for (const name of Object.keys(await dumpRedis(redis, app.prefix))) {
      if (before.has(name)) continue;
      // Only the request record is left, as where the server ended before it counted.
      if (name.includes('request:')) await client.hdel(name, 'answer');
      else await client.del(name);
    }
    await app.post('/product/visit', visit('late', 'blue-hat'));
    await app.post('/product/visit', { identity: { customerId: 'late-c' }, productHandle: 'x' }, TRUSTED);
    await app.post('/profile/merge', { identity: { customerId: 'late-c', sessionId: 'late' } }, TRUSTED);
    const retries = await Promise.all(
      [app, other, app].map((server) => server.post('/product/visit?count=true', visit('late'), key('late'))),
    );
    t.same([...new Set(retries.map(({ text }) => text))].length, 1);
    t.match(retries[0], { status: 200, json: { count: 1 } });
    t.equal(await count('late'), 1);
  });

  if (!isCluster)
    t.test('what is kept of a request names no visitor', async (t) => {
      const identity = {
        sessionId: 'secret',
        email: 'ada@shop.example',
        firstName: 'Ada Augusta', // with a blank: three letters are in every hundredth digest
        lastName: 'Lovelace',
      };
      await app.post('/event', { ...event('secret'), identity }, key('personal', TRUSTED));
      const dump = (await dumpRedis(redis, app.prefix)) as Record<string, unknown>;
      const records = Object.entries(dump).filter(
        ([name]) => name.includes('request:') || name.includes(':k:'),
      );
      t.ok(records.length > 0);
      for (const [name, record] of records)
        t.notMatch(
          JSON.stringify(record),
          /ada@shop|Ada Augusta|Lovelace/,
          `${name}: a digest, and what the retry needs`,
        );
    });

  if (!isCluster)
    t.test('a key has 1 to 255 bytes', async (t) => {
      t.equal((await app.post('/product/visit', visit('j'), key('x'.repeat(255)))).status, 200);
      const before = await dumpRedis(redis, app.prefix);
      const answer = await app.post('/product/visit', visit('j'), key('x'.repeat(256)));
      t.match(answer, {
        status: 400,
        json: { code: 'invalid_request', issues: [{ path: 'Idempotency-Key' }] },
      });
      t.same(await dumpRedis(redis, app.prefix), before);
    });

  if (!isCluster)
    t.test('a request that was refused does not use up its key', async (t) => {
      t.equal((await app.post('/product/visit', { productHandle: 'h' }, key('later'))).status, 400);
      t.match(await app.post('/product/visit?count=true', visit('k'), key('later')), {
        status: 200,
        json: { count: 1 },
      });
    });

  t.test('a key is remembered for 24 h and then forgotten', async (t) => {
    const client = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 5_000 }, () => {});
    t.teardown(() => client.disconnect());
    const records = (await dumpRedis(redis, app.prefix)) as Record<string, unknown>;
    const names = Object.keys(records).filter((name) => name.includes('request:') || name.includes(':k:'));
    t.ok(names.length > 5);
    for (const name of names) {
      const seconds = await client.ttl(name);
      t.ok(seconds > 86_000 && seconds <= 86_400, `${name}: ${seconds} s`);
    }
  });
});
