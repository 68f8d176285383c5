// The scripts of request records alone (request-begin, request-place, request-end, fence), and the two that write one key
// (put, settings). That a fenced visit is not counted later: test/visits/visits-script.test.ts.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';

const RECORD = '{once:r}';

t.test('scripts of requests', async (t) => {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const soon = () => clock(10_000);

  const begin = async (id = 'id-1', { print = 'print', customer = '7', places = 'a.1', at = 5 } = {}) =>
    call('request-begin', [RECORD], [await soon(), 60, id, at, print, customer, places]);
  const place = async (id: string, known: string, wanted: string) =>
    call('request-place', [RECORD], [await soon(), id, known, wanted]);
  const end = async (id: string, answer: string) => call('request-end', [RECORD], [await soon(), id, answer]);

  t.test('begin: the first one is recorded, for its time', async (t) => {
    t.equal(await begin(), 1);
    t.same(await client.hgetall(RECORD), {
      id: 'id-1',
      at: '5',
      request: 'print',
      customer: '7',
      places: 'a.1',
    });
    const ttl = await client.ttl(RECORD);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
  });

  t.test('begin: any other one gets the record as it is, and changes nothing', async (t) => {
    await begin();
    await client.expire(RECORD, 1_000);
    const record = ['id-1', '5', 'print', '7', 'a.1', null];
    t.same(await begin(), record, 'the same call again');
    t.same(await begin('id-2', { print: 'other', customer: '8', places: 'b.2', at: 6 }), record);
    await end('id-1', 'done');
    t.same(await begin('id-2'), [...record.slice(0, 5), 'done']);
    t.ok((await client.ttl(RECORD)) > 900, 'it does not live longer for being asked, nor shorter');
  });

  t.test('place: a compare-and-set on the places; the slower of two gets the current ones', async (t) => {
    await begin();
    t.equal(await place('id-1', 'a.1', 'a.1 b.2'), 'a.1 b.2');
    t.equal(await place('id-1', 'a.1', 'a.1 b.2'), 'a.1 b.2', 'again');
    t.equal(await place('id-1', 'a.1', 'a.1 c.3'), 'a.1 b.2', 'another try was faster');
    t.equal(await client.hget(RECORD, 'places'), 'a.1 b.2');
    t.equal(await place('id-1', 'a.1 b.2', 'a.1 b.2 c.3'), 'a.1 b.2 c.3');
    const ttl = await client.ttl(RECORD);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
  });

  t.test(
    'place: where the record is gone, or of another operation, empty, and nothing is done',
    async (t) => {
      t.equal(await place('id-1', '', 'a.1'), '');
      t.same(await client.keys('*'), []);
      await begin();
      t.equal(await place('id-2', 'a.1', 'a.1 b.2'), '');
      t.equal(await client.hget(RECORD, 'places'), 'a.1');
    },
  );

  t.test('end: the first answer stays, and is everybody’s', async (t) => {
    await begin();
    t.equal(await end('id-1', 'first'), 'first');
    t.equal(await end('id-1', 'first'), 'first', 'again');
    t.equal(await end('id-1', 'second'), 'first');
    t.equal(await client.hget(RECORD, 'answer'), 'first');
    const ttl = await client.ttl(RECORD);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
  });

  t.test(
    'end: where the record is gone, or of another operation, the own answer, and nothing is left',
    async (t) => {
      t.equal(await end('id-1', 'mine'), 'mine');
      t.same(await client.keys('*'), []);
      await begin();
      t.equal(await end('id-2', 'mine'), 'mine');
      t.equal(await client.hexists(RECORD, 'answer'), 0);
    },
  );

  t.test('end: without an answer, of a request that was refused: its key is free again', async (t) => {
    await begin();
    t.equal(await end('id-2', ''), '', 'of another operation');
    t.equal(await client.exists(RECORD), 1);
    t.equal(await end('id-1', ''), '');
    t.same(await client.keys('*'), []);
    t.equal(await end('id-1', ''), '', 'again');
    t.equal(await begin('id-3', { print: 'other' }), 1);
    await end('id-3', 'done');
    t.equal(await end('id-3', ''), 'done', 'another try was done');
    t.equal(await client.hget(RECORD, 'answer'), 'done');
  });

  t.test('fence: tells what was done, and blocks what was not', async (t) => {
    const parts = ['{a}:k:1.1.0', '{a}:k:1.1.1', '{a}:k:1.1.2'] as const;
    const fence = async () => call('fence', parts, [await soon(), 60]);

    await client.set(parts[1], '4');
    t.same(await fence(), ['-', '4', '-']);
    t.same(await fence(), ['-', '4', '-'], 'again');
    t.same(await client.mget(...parts), ['-', '4', '-']);
    for (const key of [parts[0], parts[2]]) {
      const ttl = await client.ttl(key);
      t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    }
    t.equal(await client.ttl(parts[1]), -1, 'what was done is remembered for as long as before');
  });

  t.test('put: writes a string, or removes it', async (t) => {
    const put = async (value: string) => call('put', ['{share:c}'], [await soon(), value]);
    for (const value of ['a.1', 'a.1', 'b.2']) t.equal(await put(value), 1);
    t.equal(await client.get('{share:c}'), 'b.2');
    t.equal(await client.ttl('{share:c}'), -1);
    for (let i = 0; i < 2; i++) t.equal(await put(''), 1);
    t.same(await client.keys('*'), []);
  });

  t.test('settings: writes one and leaves the others', async (t) => {
    const set = async (name: string, value: string) =>
      call('settings', ['wm:settings'], [await soon(), name, value]);
    await set('other', '1');
    for (let i = 0; i < 2; i++) t.equal(await set('autoRemoveAfterPurchase', '1'), 1);
    t.same(await client.hgetall('wm:settings'), { other: '1', autoRemoveAfterPurchase: '1' });
  });

  t.test('past its deadline none of them does anything', async (t) => {
    const late = await clock(-1);
    t.equal(await call('request-begin', [RECORD], [late, 60, 'id', 5, '', '', '']), LUA.EXPIRED);
    t.equal(await call('fence', ['{a}:k:1'], [late, 60]), LUA.EXPIRED);
    t.equal(await call('put', ['{share:c}'], [late, 'a.1']), LUA.EXPIRED);
    t.equal(await call('settings', ['wm:settings'], [late, 'name', 'value']), LUA.EXPIRED);
    t.same(await client.keys('*'), []);
    await begin();
    const before = await client.hgetall(RECORD);
    t.equal(await call('request-place', [RECORD], [late, 'id-1', 'a.1', 'a.1 b.2']), LUA.EXPIRED);
    t.equal(await call('request-end', [RECORD], [late, 'id-1', 'answer']), LUA.EXPIRED);
    t.same(await client.hgetall(RECORD), before);
    await client.set('{share:c}', 'a.1');
    t.equal(await call('put', ['{share:c}'], [late, '']), LUA.EXPIRED);
    t.equal(await client.get('{share:c}'), 'a.1');
  });
});
