// lua/wishlist.lua alone: what is asked for again, by the same batch or under a record, is done once and answered alike; what
// its sender did not hear of is not lost.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import {
  add,
  CODE,
  ITEMS,
  idOf,
  LEFT_BEHIND_MS,
  lineOf,
  OUTBOX,
  openScriptWorld,
  PROFILE,
  RECORD,
  remove,
  share,
} from './script-world.js';

const ONCE = { isOnce: true };

for (const isCluster of [false, true]) {
  t.test(isCluster ? 'wishlist.lua on a cluster' : 'wishlist.lua on one server', async (t) => {
    const world = await openScriptWorld(t, isCluster);
    const { client, clock, batch, one, isDone, lines, acknowledge, age, data } = world;
    /** How it is said that an operation was done before, with the events that may not be in the stream. */
    const before = (value: string, ...events: string[]) =>
      isCluster ? `=${value}\n${events.map((line) => `${line}\n`).join('')}` : `=${value}`;

    t.test('the same batch again answers alike and changes nothing; an older one is refused', async (t) => {
      await client.hset(ITEMS, '2:', 'old id\nday\nB');
      const ops = [add('1:', 'A', 'e1'), add('2:', 'C', 'e2')];
      const first = await batch(ops, { seq: 100 });
      await client.hset(ITEMS, '1:', 'by another request');
      t.same(await batch(ops, { seq: 100, deadline: 1 }), first, 'however late');
      t.equal(await client.hget(ITEMS, '1:'), 'by another request');
      t.equal(await batch(ops, { seq: 99 }), LUA.SUPERSEDED);
      t.equal((await lines()).trim().split('\n').length, 2);
    });

    t.test('without a record two requests are two', async (t) => {
      for (const event of ['e1', 'e2']) await one(add('1:', 'A', event));
      t.equal((await lines()).trim().split('\n').length, 2);
    });

    t.test('under a record each kind is done once, and answers as the first time', async (t) => {
      isDone(await one(add('1:', 'A', 'e1', ONCE)), '', lineOf('e1'));
      const ttl = await client.ttl(RECORD);
      t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
      t.equal(await one(add('1:', 'A', 'e2', ONCE)), before('id day', lineOf('e1')));
      await acknowledge('e1');
      await client.hset(ITEMS, '1:', 'by\nanother\nrequest');
      t.equal(await one(add('1:', 'A', 'e3', ONCE)), before('id day'));
      t.equal(await client.hget(ITEMS, '1:'), 'by\nanother\nrequest');

      await client.del(RECORD);
      await one(share('e4', 1, ONCE));
      await client.hset(PROFILE, 'share', 'other');
      t.equal(await one(share('e5', 1, ONCE)), before(CODE, lineOf('e4', `,"code":"${CODE}"`)));
      await acknowledge('e4');

      await client.del(RECORD);
      await client.hset(ITEMS, '1:', 'id\nday\n{}');
      await one(remove('1:', lineOf('e6'), '', ONCE));
      await client.hset(ITEMS, '1:', 'wished for again');
      t.equal(await one(remove('1:', lineOf('e7'), '', ONCE)), before('1', lineOf('e6')));
      t.equal(await client.hget(ITEMS, '1:'), 'wished for again');

      await client.set(RECORD, '-');
      const left = await data();
      t.equal(
        await one(remove('1:', lineOf('e8'), '', ONCE)),
        '-',
        'one that was fenced is done at another place',
      );
      t.same(await data(), left);
    });

    if (!isCluster) return;

    t.test('an event that was left behind goes along with any change', async (t) => {
      for (const event of ['e1', 'e2']) await one(add(`${event}:`, 'A', event));
      await age('e1', LEFT_BEHIND_MS + 1);
      await age('e2', LEFT_BEHIND_MS - 10_000);
      t.equal(await one(remove('9:', '')), `=\n${lineOf('e1')}\n`);
    });

    t.test('a clock that was set back: an event is not left behind any later for that', async (t) => {
      await one(add('1:', 'A', 'e1'));
      await age('e1', -3_600_000);
      await one(add('2:', 'A', 'e2'));
      const at = await client.hget(OUTBOX, idOf('e1'));
      t.ok(Math.abs(Number(at?.split('\n')[0]) - (await clock(0))) < 60_000);
    });

    t.test('a full outbox takes no event, says of what it is full, and nothing is done', async (t) => {
      const entry = (id: string) => clock(0).then((at) => `${at}\n\n${lineOf(id)}\n`);
      for (let i = 0; i < 64; i++) await client.hset(OUTBOX, idOf(`e${i}`), await entry(`e${i}`));
      const answer = String(await one(add('1:', 'A', 'e')));
      t.equal(answer.split('\n').filter((line) => line.startsWith('{')).length, 64);
      t.match(answer, /^~\n/);
      t.same(await data(), [OUTBOX]);
      t.match(await one(remove('1:', '')), /^=\n/, 'without events it is done');
    });
  });
}
