// lua/wishlist.lua and release.lua alone: what is asked for again, by the same batch, by a retry or under a record, is done
// once and answered alike; what its sender did not hear of is not lost.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import {
  add,
  CODE,
  ITEMS,
  idOf,
  LEFT_BEHIND_MS,
  lineOf,
  type Op,
  OUTBOX,
  openScriptWorld,
  PROFILE,
  RECORD,
  remove,
  share,
  UNANSWERED,
  UNDER_WAY_MS,
} from './script-world.js';

for (const isCluster of [false, true]) {
  t.test(isCluster ? 'wishlist.lua on a cluster' : 'wishlist.lua on one server', async (t) => {
    const world = await openScriptWorld(t, isCluster);
    const { client, call, clock, batch, one, isDone, lines, acknowledge, age, data } = world;

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

    t.test('asked for again it answers as the first time, and makes no second event', async (t) => {
      await one(add('1:', 'A', 'e1'));
      t.equal(await one(add('1:', 'A', 'e2')), '~\n', 'it may be under way');
      await age('add 1: A', UNDER_WAY_MS + 1);
      isDone(await one(add('1:', 'A', 'e2'), {}), 'id day', lineOf('e1'));
      t.equal((await lines()).trim(), lineOf('e1'));
      t.equal(await one(add('1:', 'A', 'e2')), '~\n', 'of two retries one has it');
      isDone(await one(add('1:', 'A', 'e2', { hurries: true })), 'id day', lineOf('e1'));
      await acknowledge('add 1: A', 'e1');
      isDone(await one(add('1:', 'A', 'e3')), 'id day', lineOf('e3'));
    });

    t.test('a removal and a share, too', async (t) => {
      await client.hset(ITEMS, '1:', 'id\nday\n{}');
      await one(remove('1:', lineOf('e1')));
      t.equal(await one(remove('1:', lineOf('e2'))), '~\n');
      await age('remove 1:', UNDER_WAY_MS + 1);
      t.equal(await one(remove('1:', lineOf('e2'))), isCluster ? `=1\n${lineOf('e1')}\n` : undefined);
      await acknowledge('remove 1:', 'e1');
      t.equal(await one(remove('1:', lineOf('e2'))), isCluster ? '=\n' : '=');
      await one(share('e3', 1));
      await age('share', UNDER_WAY_MS + 1);
      isDone(await one(share('e4', 1)), CODE, lineOf('e3', `,"code":"${CODE}"`));
    });

    t.test(
      'add A without an answer, then B, then A again: A is written, with an event of its own',
      async (t) => {
        await one(add('1:', 'A', 'e1'));
        await age('add 1: A', UNDER_WAY_MS + 1);
        await one(add('1:', 'B', 'e2'));
        isDone(await one(add('1:', 'A', 'e3')), 'id day', lineOf('e3'));
        t.equal(await client.hget(ITEMS, '1:'), 'id day\nlater\nA');
      },
    );

    t.test('a clock that was set back: nothing is under way for as long as the jump', async (t) => {
      await one(add('1:', 'A', 'e1'));
      await age('add 1: A', -3_600_000);
      await one(add('1:', 'A', 'e2', { hurries: true }));
      const at = isCluster
        ? await client.hget(OUTBOX, idOf('e1'))
        : await client.hget(UNANSWERED, 'add 1: A');
      t.ok(Math.abs(Number(at?.split('\n')[0]) - (await clock(0))) < 60_000);
    });

    t.test('what was left behind', async (t) => {
      await one(add('1:', 'A', 'e1'));
      await one(add('2:', 'A', 'e2'));
      await age('add 1: A', LEFT_BEHIND_MS + 1);
      await age('add 2: A', LEFT_BEHIND_MS - 10_000);
      if (isCluster)
        t.equal(await one(remove('9:', '')), `=\n${lineOf('e1')}\n`, 'goes along with any change');
      else {
        for (let i = 0; i < 200 && (await client.hexists(UNANSWERED, 'add 1: A')); i++) {
          await one(add(`${i}:`, 'B', 'e'));
          await client.hdel(UNANSWERED, `add ${i}: B`); // a draw is then one of three, each time
        }
        t.equal(await client.hexists(UNANSWERED, 'add 1: A'), 0, 'is forgotten');
        t.equal(await client.hexists(UNANSWERED, 'add 2: A'), 1);
      }
    });

    t.test('under a record', async (t) => {
      const buy = (field = '1:'): Op => ({
        keys: [PROFILE, ITEMS, RECORD],
        words: 'purchase',
        lines: `R\n60\n2\n${field}\n${lineOf('e1')}\n\n2:\n${lineOf('e2')}\n\n`,
      });
      await client.hset(ITEMS, { '1:': 'one', '3:': 'three' });
      t.equal(await one(buy()), isCluster ? `=1\n${lineOf('e1')}\n` : undefined, 'of what is there');
      t.same(await client.hkeys(ITEMS), ['3:']);
      const ttl = await client.ttl(RECORD);
      t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
      await acknowledge('purchase', 'e1');
      await client.hset(ITEMS, '1:', 'wished for again');
      t.equal(await one(buy()), isCluster ? '=1\n' : undefined);
      t.equal(await client.hget(ITEMS, '1:'), 'wished for again', 'once');
      await client.set(RECORD, '-');
      const before = await data();
      t.equal(await one(buy()), '-', 'one that was fenced is done at another place');
      t.same(await data(), before);
      t.equal(await client.hlen(ITEMS), 2);
    });

    if (isCluster) {
      t.test('a full outbox takes no event, says of what it is full, and nothing is done', async (t) => {
        const entry = (id: string) => clock(0).then((at) => `${at}\nadd 9:\n${lineOf(id)}\n`);
        for (let i = 0; i < 64; i++) await client.hset(OUTBOX, idOf(`e${i}`), await entry(`e${i}`));
        const answer = String(await one(add('1:', 'A', 'e')));
        t.equal(answer.split('\n').filter((line) => line.startsWith('{')).length, 64);
        t.match(answer, /^~\n/);
        t.same(await data(), [OUTBOX]);
        t.match(await one(remove('1:', '')), /^=\n/, 'without events it is done');
      });

      t.test('release: what failed is not under way', async (t) => {
        await one(add('1:', 'A', 'e1'));
        t.equal(await one(add('1:', 'A', 'e2')), '~\n');
        await call('release', [OUTBOX], [await clock(-1), UNDER_WAY_MS, idOf('e1')]).then((code) =>
          t.equal(code, LUA.EXPIRED),
        );
        t.equal(await one(add('1:', 'A', 'e2')), '~\n');
        await call('release', [OUTBOX], [await clock(10_000), UNDER_WAY_MS, idOf('e1'), 'unknown']);
        isDone(await one(add('1:', 'A', 'e2')), 'id day', lineOf('e1'));
      });
    }
  });
}
