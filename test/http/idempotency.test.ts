// Idempotency-Key: what was asked under a key is done once and answered alike.

import t from 'tap';
import { connectRedis } from '../../src/redis/client.js';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { rowsOf } from '../harness/stream.js';

const visit = (sessionId: string, productHandle = 'red-shoe') => ({ identity: { sessionId }, productHandle });
const event = (sessionId: string, type = 'add') => ({
  identity: { sessionId },
  type,
  payload: { productId: '1' },
});

eachRedis(t, async (t, redis) => {
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

  t.test(
    'a trusted key that is used again with another body gets the first answer and does nothing',
    async (t) => {
      const first = await app.post('/event', event('c'), key('k-2', TRUSTED));
      const before = await dumpRedis(redis, app.prefix);
      const again = await app.post('/event', event('d', 'remove'), key('k-2', TRUSTED));
      t.equal(again.status, 200);
      t.equal(again.text, first.text);
      t.same(await dumpRedis(redis, app.prefix), before);
    },
  );

  t.test('without a credential each visitor has keys of its own', async (t) => {
    const one = await app.post('/product/visit?count=true', visit('e'), key('same'));
    const two = await app.post('/product/visit?count=true', visit('f'), key('same'));
    t.match([one.json.count, two.json.count], [1, 1]);
    t.not(one.json.profileId, two.json.profileId);
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
    t.equal((await rowsOf(redis, app)).filter((line) => line['session_id'] === 'h').length, 1);
  });

  t.test(
    'what a crashed server left pending is done by whoever asks next, as it was asked first',
    async (t) => {
      // The record is there, the deed is not: the server died in between.
      const client = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 5_000 }, () => {});
      t.teardown(() => client.disconnect());
      await app.post('/product/visit?count=true', visit('i'), key('crash'));
      const records = (await dumpRedis(redis, app.prefix)) as Record<string, unknown>;
      const name = Object.keys(records).find(
        (k) => k.includes('once:') && String(records[k]).includes('"sessionId":"i"'),
      );
      const text = await client.get(name as string);
      const { answer, ...pending } = JSON.parse(text as string);
      await client.set(name as string, JSON.stringify(pending), 'KEEPTTL');
      const again = await app.post('/product/visit?count=true', visit('i', 'another'), key('crash'));
      t.equal(again.text, answer, 'done again under its id: counted once');
      t.equal(await count('i'), 1);
      t.equal(await count('i', 'another'), 0);
    },
  );

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
    const names = Object.keys(records).filter((name) => name.includes('once:') || name.includes(':k:'));
    t.ok(names.length > 5);
    for (const name of names) {
      const seconds = await client.ttl(name);
      t.ok(seconds > 86_000 && seconds <= 86_400, `${name}: ${seconds} s`);
    }
  });
});
