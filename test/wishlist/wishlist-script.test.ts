// lua/wishlist.lua and items.lua alone, as on one server and as on a cluster: a change and its event are there together, or
// neither is, with every answer and error, and what is left in Redis afterwards. Repeats: wishlist-repeats-script.test.ts.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { startLuaRedis } from '../harness/lua.js';
import {
  add,
  type Caps,
  CODE,
  doorOf,
  EVENTS,
  ITEMS,
  idOf,
  lineOf,
  OUTBOX,
  openScriptWorld,
  PROFILE,
  remove,
  SHARE,
  STATE,
  share,
} from './script-world.js';

for (const isCluster of [false, true]) {
  t.test(isCluster ? 'wishlist.lua on a cluster' : 'wishlist.lua on one server', async (t) => {
    const { client, clock, batch, one, isDone, lines, acknowledge, data } = await openScriptWorld(
      t,
      isCluster,
    );

    t.test('a change and its event are there together', async (t) => {
      isDone(await one(add('1:', 'A', 'e1')), '', lineOf('e1'));
      t.same(await client.hgetall(ITEMS), { '1:': 'id day\nlater\nA' });
      t.equal((await lines()).trim(), lineOf('e1'));
      if (!isCluster)
        t.same(await client.hgetall(STATE), { events: '1', bytes: String(lineOf('e1').length + 1) });
      await acknowledge('e1');
      t.same(await data(), isCluster ? [ITEMS] : [EVENTS, ITEMS]);
    });

    t.test('an item that is there keeps its first line', async (t) => {
      await client.hset(ITEMS, '1:', 'old id\nday\nA');
      isDone(await one(add('1:', 'B', 'e1')), 'old id', lineOf('e1'));
      t.same(await client.hgetall(ITEMS), { '1:': 'old id\nlater\nB' });
    });

    t.test('a batch is one entry, in its order, without what was not done', async (t) => {
      await client.hset(ITEMS, '2:', 'id\nday\n{}');
      const full = { maxItems: 2 };
      const answers = await batch(
        [add('1:', 'A', 'e1'), add('3:', 'C', 'e3'), remove('2:', lineOf('e2')), add('4:', 'D', 'e4')],
        full,
      );
      t.equal(answers[answers.indexOf(2) + 1], LUA.TOO_MANY);
      const order = [lineOf('e1'), lineOf('e2'), lineOf('e4')];
      if (isCluster) t.equal((await client.hkeys(OUTBOX)).length, 3);
      else {
        t.equal(await lines(), order.map((line) => `${line}\n`).join(''));
        t.same(await client.hget(STATE, 'events'), '3');
        t.equal((await client.xrange(EVENTS, '-', '+')).length, 1);
      }
    });

    t.test('a removal fills its event from the item', async (t) => {
      const content = {
        productId: '1',
        variantId: null,
        productTitle: 'é "/\\ \u2028',
        quantity: 4_294_967_295,
        compareAt: null,
        properties: { lone: '\ud800', deep: [[{ a: '}' }]] },
      };
      await client.hset(ITEMS, '1:', `id\nday\n${JSON.stringify(content)}`);
      const names = 'productId variantId productTitle quantity compareAt';
      const { properties: _, ...payload } = content;
      const line =
        `{"event_id":"${idOf('e1')}","product_id":"1","quantity":4294967295,"payload":` +
        `${JSON.stringify(JSON.stringify(payload))}}`;
      const answer = await one(remove('1:', `{"event_id":"${idOf('e1')}"`, names));
      t.equal(answer, isCluster ? `=1\n${line}\n` : undefined);
      t.equal((await lines()).trim(), line);
      t.equal(await client.exists(ITEMS), 0);
    });

    t.test('where nothing is there, nothing is removed, and there is no event', async (t) => {
      t.equal(
        await one(remove('1:', lineOf('e1'), '', isCluster ? {} : { name: 's:1' })),
        isCluster ? '=\n' : '=',
      );
      t.same(await data(), []);
    });

    t.test('a share draws one code; who has one keeps it, and the event has it', async (t) => {
      if (isCluster) {
        t.equal(await one(share('e1')), '?', 'its key is written first');
        t.same(await data(), []);
      }
      isDone(await one(share('e1', 1)), '', lineOf('e1', `,"code":"${CODE}"`));
      t.equal(await client.hget(PROFILE, 'share'), CODE);
      if (!isCluster) t.equal(await client.get(SHARE), 'a.1');
      await client.hset(PROFILE, 'share', 'other');
      await acknowledge('e1');
      isDone(await one(share('e2')), 'other', lineOf('e2', ',"code":"other"'));
      t.match(await lines(), lineOf('e2', ',"code":"other"'));
    });

    t.test('a profile that was merged away answers its heir, and nothing is done', async (t) => {
      for (const heir of ['b.heir', '!b.heir']) {
        await client.hset(PROFILE, 'heir', heir);
        for (const op of [add('1:', 'A', 'e1'), remove('1:', lineOf('e1')), share('e1', 1)])
          t.equal(await one(op), heir);
        t.equal(await one({ keys: [PROFILE, OUTBOX], lines: `s\n${idOf('e1')}\n` }), heir);
      }
      t.same(await data(), []);
    });

    t.test('past its deadline nothing is done', async (t) => {
      t.equal(await batch([add('1:', 'A', 'e1')], { deadline: await clock(-1) }), LUA.EXPIRED);
      t.same(await data(), []);
    });

    t.test('caps', async (t) => {
      const caps = { maxItems: 3, maxBytes: 100 };
      const put = (field: string, content: string, more: Caps = {}) =>
        one(add(field, content, `e ${field} ${content.length}`, {}, ''), { ...caps, ...more });
      const take = (field: string) => one(remove(field, lineOf('r')), caps);
      const bytes = () => client.hget(PROFILE, 'itemBytes');
      // Beside its content an item has two line ends and `later`.
      const isRefused = async (act: () => Promise<unknown>) => {
        const before = [await client.hgetall(ITEMS), await client.hgetall(PROFILE), await lines()];
        t.equal(await act(), LUA.TOO_MANY);
        t.same([await client.hgetall(ITEMS), await client.hgetall(PROFILE), await lines()], before);
      };

      t.test('one item too many; updates go on, a removal makes room', async (t) => {
        for (const field of ['1', '2', '3']) t.not(await put(field, 'x'), LUA.TOO_MANY);
        await isRefused(() => put('4', 'x'));
        t.not(await put('2', 'yy'), LUA.TOO_MANY);
        await take('1');
        t.not(await put('4', 'x'), LUA.TOO_MANY);
        t.equal(await client.hlen(ITEMS), 3);
      });

      t.test(
        'bytes are counted as items come, change and go; too many are refused, to the byte',
        async (t) => {
          await put('1', '12345');
          t.equal(await bytes(), '12');
          await put('1', '1');
          t.equal(await bytes(), '8');
          await put('2', '123');
          t.equal(await bytes(), '18');
          await isRefused(() => put('3', 'x'.repeat(76)));
          await isRefused(() => put('2', 'x'.repeat(86)));
          await put('2', 'x'.repeat(85));
          t.equal(await bytes(), '100', 'just so many');
          await isRefused(() => put('2', 'x'.repeat(86)));
          t.not(await put('2', 'x'.repeat(84), { maxBytes: 10 }), LUA.TOO_MANY, 'what shrinks is not');
          await take('2');
          await take('1');
          t.equal(await bytes(), '0');
        },
      );

      t.test('bytes from before they were counted are made up for', async (t) => {
        await client.hset(ITEMS, { 1: 'x'.repeat(60), 2: 'x'.repeat(30) });
        await isRefused(() => put('3', 'x'.repeat(4)));
        t.not(await put('3', 'x'.repeat(3)), LUA.TOO_MANY);
        t.equal(await bytes(), '100');
      });

      t.test(
        'a wishlist that has more than it may, after a merge: it shrinks, and takes no more',
        async (t) => {
          await client.hset(ITEMS, { 1: '\n\n{}', 2: '\n\n{}', 3: '\n\n{}', 4: '\n\n{}', 5: '\n\n{}' });
          await isRefused(() => put('6', 'a'));
          for (const field of ['1', '2']) await take(field);
          await isRefused(() => put('6', 'a'));
          await take('3');
          t.not(await put('6', 'a'), LUA.TOO_MANY);
          t.equal(await bytes(), '16', 'counted as soon as they may be');
        },
      );

      t.test('without caps nothing is counted', async (t) => {
        for (let i = 0; i < 5; i++) await put(String(i), 'x'.repeat(100), { maxItems: 0, maxBytes: 0 });
        t.same(await client.hgetall(PROFILE), { owner: 'c:1' });
        t.equal(await client.hlen(ITEMS), 5);
      });
    });

    if (isCluster) return;

    t.test('at the high-water mark nothing is done; the mark may be reached, and not passed', async (t) => {
      const highWater = 2 * lineOf('e1').length + 2;
      const ops = ['1:', '2:', '3:'].map((field) => add(field, 'A', 'e1', { name: `s:${field}` }));
      t.same(await batch(ops, { highWater }), [3, LUA.FULL]);
      t.same(await client.hkeys(ITEMS), ['1:', '2:']);
      t.equal(await client.hget(STATE, 'bytes'), String(highWater));
      t.equal(await one(remove('1:', lineOf('e2')), { highWater }), LUA.FULL);
      t.equal(await one(share('e3'), { highWater }), LUA.FULL);
      t.equal(await client.hlen(ITEMS), 2);
    });

    t.test('the identity is looked for at its door: at home, unknown, at a room, elsewhere', async (t) => {
      for (const [name, field] of Object.entries({ away: 'z.other 3', here: 'a.1 2', near: 'a.11 1' }))
        await client.hset(doorOf(name), '', field);
      const at = (name: string, field = '') => add('1:', name, 'e', { name, field });
      const ops = [at('new'), at('away'), at('here', 'a.1 2'), at('near', 'a.1 1'), at('gone', 'a.1 2')];
      ops.push(at('here', 'a.1 1'));
      t.same(await batch(ops), [2, '@z.other 3', 3, '=id day', 4, '@a.11 1', 5, '@', 6, '@a.1 2']);
      t.equal(await client.hget(STATE, 'events'), '2');
      await client.hset(PROFILE, 'heir', 'b.heir');
      t.equal(await one(at('here', 'a.1 2')), 'b.heir', 'a room may have been merged away');
    });

    t.test('who adds or shares is known by it; who is refused, or removes, stays unknown', async (t) => {
      await client.del(PROFILE);
      const at = { name: 's1' };
      t.equal(await one(add('1:', 'A', 'e1', at), { highWater: 1 }), LUA.FULL);
      await one(remove('1:', lineOf('e2'), '', at));
      t.equal(await client.exists(PROFILE), 0);
      await one(add('1:', 'A', 'e1', at));
      t.same(await client.hgetall(PROFILE), { known: '1' });
      await client.del(PROFILE);
      await one(share('e3', 0, at));
      t.same(await client.hgetall(PROFILE), { share: CODE });
      await client.hset(doorOf('s1'), '', 'z.other 3');
      t.equal(await one(add('3:', 'C', 'e4', at)), '@z.other 3');
    });
  });
}

t.test('items.lua', async (t) => {
  const { client, call } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const page = (cursor: string | number) => call('items', [PROFILE, ITEMS], [cursor, 100]);

  t.test('1,000 items come in a few pages of bounded size, each at least once', async (t) => {
    const items = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`${i}:`, `item ${i}`]));
    await client.hset(ITEMS, items);
    const seen: Record<string, string> = {};
    let cursor = '0';
    let pages = 0;
    do {
      const [next, ...fields] = (await page(cursor)) as [string, ...string[]];
      t.ok(fields.length / 2 <= 200, `${fields.length / 2} items`);
      for (let i = 0; i < fields.length; i += 2) seen[fields[i] as string] = fields[i + 1] as string;
      cursor = next;
      if (++pages > 100) throw new Error('it never ends');
    } while (cursor !== '0');
    t.same(seen, items);
    t.ok(pages >= 5 && pages <= 20, `${pages} pages`);
  });

  t.test('no items: one page, and nothing is left', async (t) => {
    t.same(await page(0), ['0']);
    t.same(await client.keys('*'), []);
  });

  t.test('a profile that was merged away answers its heir', async (t) => {
    await client.hset(ITEMS, '1:', 'one');
    for (const heir of ['b.heir', '!b.heir']) {
      await client.hset(PROFILE, 'heir', heir);
      t.equal(await page(0), heir);
    }
  });
});
