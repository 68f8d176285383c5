// How a wishlist is stored: items as text, and lua/wishlist.lua alone. A change and its event are there together, or neither
// is; what is asked for again, by the same batch or under a record, is done once.

import t, { type Test } from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { itemField, newestFirst, parseItem } from '../../src/wishlist/item.js';
import { startLuaRedis } from '../harness/lua.js';
import { contentOf, storedItem } from '../harness/samples.js';

const LANE = '{a}:lane';
const [EVENTS, STATE] = ['{a}:events', '{a}:state'];
const [PROFILE, ITEMS, RECORD] = ['{a}:p:1', '{a}:i:1', '{a}:k:1'];
/** Of a session. */
const identityOf = (name: string) => `{a}:v:${name}`;
const CODE = 'AAAA-BBBB-CCCC-_';

/** The line of an event; its id is where the script looks for it. */
const lineOf = (id: string, more = '') => `{"event_id":"${id.padEnd(36, '.')}"${more}}`;
const idOf = (id: string) => id.padEnd(36, '.');

/** Done under RECORD. */
const ONCE = { isOnce: true };

interface Op {
  readonly lines: string;
  readonly event?: string;
  readonly content?: string;
}

interface At {
  /** Whose link is checked, and the one that is expected; empty: none. Without a name the link was read before. */
  readonly name?: string;
  readonly link?: string;
  /** Whether it is done under RECORD. */
  readonly isOnce?: boolean;
}

function linesOf(letter: string, rest: string, { name = '', link = '', isOnce }: At): string {
  const identity = name === '' ? '' : identityOf(name);
  const generation = name !== '' && link === '' ? '' : 'g1';
  const place = `${identity}\n${link}\n${generation}\n`;
  const profile = generation === '' ? `{a}:p:${name}` : PROFILE;
  return `${letter}${profile}\n${ITEMS}\n${place}${isOnce ? `${RECORD}\n60` : ''}\n${rest}`;
}

/** Adds; `id day` is the creation line. */
const add = (field: string, content: string, event: string, at: At = {}, creationLine = 'id day'): Op => ({
  lines: linesOf('a', `${field}\n${creationLine}\n`, at),
  event: lineOf(event),
  content: `later\n${content}`,
});

const remove = (field: string, line: string, payload = '', at: At = {}): Op => ({
  lines: linesOf('r', `1\n${field}\n${line}\n${payload}\n`, at),
});

const share = (event: string, code = CODE, at: At = {}, isNew = true): Op => ({
  lines: linesOf('c', `${code}\n${isNew ? 1 : ''}\n`, at),
  event: lineOf(event, `,"code":"${code}"`),
});
const ASKS: Op = { lines: linesOf('c', '\n\n', {}) };

interface Caps {
  readonly seq?: number;
  readonly deadline?: number;
  readonly highWater?: number;
  readonly maxItems?: number;
  readonly maxBytes?: number;
}

/** Where a linked profile has nothing else, before each test. */
async function openScripts(t: Test) {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'generation', 'g1');
  });
  let seq = 0;

  const batch = async (ops: readonly Op[], caps: Caps = {}) => {
    const { highWater = 1e9, maxItems = 0, maxBytes = 0, deadline = await clock(10_000) } = caps;
    return call(
      'wishlist',
      [LANE],
      [
        ...[caps.seq ?? ++seq, deadline, 60, EVENTS, STATE, highWater, 0, maxItems, maxBytes],
        'productId=product_id quantity=quantity compareAt=compare_at ',
        ops.map(({ lines }) => lines).join(''),
        ops.map(({ event }) => (event === undefined ? '' : `${event}\n`)).join(''),
        ...ops.flatMap(({ content }) => content ?? []),
      ],
    ) as Promise<unknown[]>;
  };
  /** The answer of one operation; undefined: done as asked, with its event in the stream. */
  const one = async (op: Op, caps?: Caps) => (await batch([op], caps))[1];
  const lines = async () => (await client.xrange(EVENTS, '-', '+')).map(([, fields]) => fields[3]).join('');
  const data = async () =>
    (await client.keys('*')).filter((key) => ![LANE, STATE, PROFILE].includes(key)).sort();
  return { client, clock, batch, one, lines, data };
}

t.test('an item comes out of its three lines as it went in', async (t) => {
  const odd = {
    ...contentOf('1'),
    productTitle: 'a\nb "c" \u2028 😀',
    properties: { '': [null, '\n', { x: 1 }] },
  };
  const stored = storedItem('id', odd, '2026-01-01T00:00:00.000Z');
  t.equal(stored.split('\n').length, 3);
  t.same(parseItem(stored), {
    ...odd,
    itemId: 'id',
    currencyCode: null,
    countryCode: null,
    addedAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
  });
});

t.test('the newest item comes first; in one millisecond, the one whose id was drawn later', async (t) => {
  const item = (itemId: string, ms: string) => parseItem(storedItem(itemId, contentOf('1'), ms));
  const items = [item('3', '2'), item('1', '1'), item('4', '1'), item('2', '2')];
  t.same(
    items.sort(newestFirst).map(({ itemId }) => itemId),
    ['3', '2', '4', '1'],
  );
});

t.test('no two products and variants share a field', async (t) => {
  const ids = ['', '1', ':', '::', 'a:', ':a', '%', '%3A', '%253A', 'a'];
  const fields = ids.flatMap((product) => ids.map((variant) => itemField(product, variant)));
  t.equal(new Set(fields).size, fields.length);
  t.equal(itemField('1', null), '1:');
  t.equal(itemField('1', '2'), '1:2');
});

t.test('wishlist.lua', async (t) => {
  const { client, clock, batch, one, lines, data } = await openScripts(t);

  t.test('a change and its event are there together', async (t) => {
    t.equal(await one(add('1:', 'A', 'e1')), undefined);
    t.same(await client.hgetall(ITEMS), { '1:': 'id day\nlater\nA' });
    t.equal((await lines()).trim(), lineOf('e1'));
    t.same(await client.hgetall(STATE), { events: '1', bytes: String(lineOf('e1').length + 1) });
    t.same(await data(), [EVENTS, ITEMS]);
  });

  t.test('a batch is one entry, without what was not done', async (t) => {
    await client.hset(ITEMS, '2:', 'id\nday\n{}');
    const full = { maxItems: 2 };
    const answers = await batch(
      [add('1:', 'A', 'e1'), add('3:', 'C', 'e3'), remove('2:', lineOf('e2')), add('4:', 'D', 'e4')],
      full,
    );
    t.same(answers, [2, LUA.TOO_MANY]);
    t.equal(await lines(), ['e1', 'e4', 'e2'].map((id) => `${lineOf(id)}\n`).join(''));
    t.same(await client.hget(STATE, 'events'), '3');
    t.equal((await client.xrange(EVENTS, '-', '+')).length, 1);
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
    t.equal(answer, undefined);
    t.equal((await lines()).trim(), line);
    t.equal(await client.exists(ITEMS), 0);
  });

  t.test('who shares for the first time has the code from then on; the event has it', async (t) => {
    t.equal(await one(ASKS), '?', 'none yet: its key is written first');
    t.same(await data(), []);
    t.equal(await one(share('e0', CODE, {}, false)), '?', 'one that it had is not given to it again');
    t.equal(await one(share('e1')), undefined);
    t.equal(await client.hget(PROFILE, 'share'), CODE);
    t.equal(await one(ASKS), `?${CODE}`);
    t.equal(await one(share('e2', 'other')), `?${CODE}`, 'it keeps its code');
    t.equal(await one(share('e3')), undefined, 'another share');
    t.equal(await lines(), ['e1', 'e3'].map((id) => `${lineOf(id, `,"code":"${CODE}"`)}\n`).join(''));
  });

  t.test('at a profile that is gone, or another one by now, nothing is done', async (t) => {
    for (const generation of ['g2', undefined]) {
      await client.del(PROFILE);
      if (generation !== undefined) await client.hset(PROFILE, 'generation', generation);
      for (const op of [add('1:', 'A', 'e1'), remove('1:', lineOf('e1')), share('e1'), ASKS])
        t.equal(await one(op), '!');
    }
    t.same(await data(), []);
  });

  t.test('past its deadline nothing is done', async (t) => {
    t.equal(await batch([add('1:', 'A', 'e1')], { deadline: await clock(-1) }), LUA.EXPIRED);
    t.same(await data(), []);
  });

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

  t.test('under a record each kind is done once, and answers as the first time', async (t) => {
    t.equal(await one(add('1:', 'A', 'e1', ONCE)), undefined);
    const ttl = await client.ttl(RECORD);
    t.ok(ttl > 0 && ttl <= 60, `${ttl} s`);
    await client.hset(ITEMS, '1:', 'by\nanother\nrequest');
    t.equal(await one(add('1:', 'A', 'e2', ONCE)), '=id day');
    t.equal(await client.hget(ITEMS, '1:'), 'by\nanother\nrequest');

    await client.del(RECORD);
    await one(share('e3', CODE, ONCE));
    await client.hset(PROFILE, 'share', 'other');
    t.equal(await one(share('e4', CODE, ONCE)), `=${CODE}`);

    await client.del(RECORD);
    await client.hset(ITEMS, '1:', 'id\nday\n{}');
    t.equal(await one(remove('1:', lineOf('e5'), '', ONCE)), undefined);
    await client.hset(ITEMS, '1:', 'wished for again');
    t.equal(await one(remove('1:', lineOf('e6'), '', ONCE)), '=1');
    t.equal(await client.hget(ITEMS, '1:'), 'wished for again');
    t.equal((await lines()).trim().split('\n').length, 3);

    await client.set(RECORD, '-');
    const left = await data();
    t.equal(
      await one(remove('1:', lineOf('e7'), '', ONCE)),
      '-',
      'one that was fenced is done at another place',
    );
    t.same(await data(), left);
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

    t.test('bytes are counted as items come, change and go; too many are refused, to the byte', async (t) => {
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
    });

    t.test('bytes from before they were counted are made up for', async (t) => {
      await client.hset(ITEMS, { 1: 'x'.repeat(60), 2: 'x'.repeat(30) });
      await isRefused(() => put('3', 'x'.repeat(4)));
      t.not(await put('3', 'x'.repeat(3)), LUA.TOO_MANY);
      t.equal(await bytes(), '100');
    });
  });

  t.test('at the high-water mark nothing is done; the mark may be reached, and not passed', async (t) => {
    const highWater = 2 * lineOf('e1').length + 2;
    const ops = ['1:', '2:', '3:'].map((field) => add(field, 'A', 'e1', { name: `s:${field}` }));
    t.same(await batch(ops, { highWater }), [3, LUA.FULL]);
    t.same(await client.hkeys(ITEMS), ['1:', '2:']);
    t.equal(await client.hget(STATE, 'bytes'), String(highWater));
    for (const mark of [highWater, highWater + lineOf('e2').length]) {
      t.equal(await one(remove('1:', lineOf('e2')), { highWater: mark }), LUA.FULL);
      t.equal(await one(share('e3'), { highWater: mark }), LUA.FULL);
    }
    t.equal(await client.hlen(ITEMS), 2);
  });

  t.test('the link is checked: none, unknown, as expected, another one', async (t) => {
    for (const [name, link] of Object.entries({ away: 'z.other g3', here: 'a.1 g1', near: 'a.1 g11' }))
      await client.hset(identityOf(name), '', link);
    const at = (name: string, link = '') => add('1:', name, 'e', { name, link });
    const ops = [at('new'), at('away'), at('here', 'a.1 g1'), at('near', 'a.1 g1'), at('gone', 'a.1 g1')];
    t.same(await batch(ops), [2, '@z.other g3', 3, '=id day', 4, '@a.1 g11', 5, '@']);
    t.equal(await client.hget(STATE, 'events'), '2');
  });

  t.test('who adds or shares is known by it; who is refused, or removes, stays unknown', async (t) => {
    await client.del(PROFILE);
    const at = { name: '1' };
    t.equal(await one(add('1:', 'A', 'e1', at), { highWater: 1 }), LUA.FULL);
    await one(remove('1:', lineOf('e2'), '', at));
    t.equal(await client.exists(PROFILE), 0);
    await one(add('1:', 'A', 'e1', at));
    t.same(await client.hgetall(PROFILE), { known: '1' });
    await client.del(PROFILE);
    await one(share('e3', CODE, at));
    t.same(await client.hgetall(PROFILE), { share: CODE });
    await client.hset(identityOf('1'), '', 'z.other g3');
    t.equal(await one(add('3:', 'C', 'e4', at)), '@z.other g3');
  });
});
