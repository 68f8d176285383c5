// Orders as analysts see them: the newest statement of an order counts, in any order of arrival. And whose an
// order is: cases combine what was known before, whom the order names, what happens after, and how the
// visitor is erased; each two values of any two of these occur together.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { privacy, privacyWith } from '../../src/extras/privacy/extra.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { eraseAsFlusher } from '../flush/fixtures.js';
import { SHOP_DOMAIN, startApp, TRUSTED } from '../harness/app.js';
import { connectToClickHouse, emptyDatabase, select } from '../harness/clickhouse.js';
import { extrasWith } from '../harness/extras.js';
import { startStores } from '../harness/stores.js';
import { until } from '../harness/until.js';
import { add, deliver, JSON_TYPE, listed, orderOf, SECRET, sessionNote, sign, switchTo } from './orders.js';

const BEFORE = {
  'nobody is known': [],
  'the customer is known': ['customer'],
  'the session is known': ['session'],
  'both are known, unlinked': ['customer', 'session'],
  'the session is linked to the customer': ['linked'],
  "the session is another customer's": ['foreign'],
} as const;
const NAMED = ['customer', 'session', 'both'] as const;
const AFTER = [
  'nothing',
  'a login of both',
  'a login as another customer',
  'another session of the customer',
  'a shared device',
] as const;
const ERASED_BY = ['the customer', 'the session', 'the e-mail address', 'the redact webhook'] as const;
const CASES = (Object.keys(BEFORE) as (keyof typeof BEFORE)[]).flatMap((before, b) =>
  NAMED.flatMap((named, n) =>
    AFTER.flatMap((after, a) => {
      if ((a + b) % NAMED.length !== n && after !== 'a login of both') return [];
      const erasedBy = ERASED_BY[(a + b) % ERASED_BY.length] as (typeof ERASED_BY)[number];
      const number = `${b}${n}${a}`;
      const name = `${before}; the order names ${named}; then ${after}; erased by ${erasedBy}`;
      const ids = { customerId: `71${number}001`, otherId: `71${number}002`, orderId: `71${number}009` };
      const session = { sessionId: `order-${number}-session`, email: `order-${number}@histories.example` };
      return [{ name, before, named, after, erasedBy, ...ids, ...session }];
    }),
  ),
);
type Case = (typeof CASES)[number];
function hasMoved({ before, after }: Case): boolean {
  if (after === 'a shared device') return true;
  if (before === "the session is another customer's") return after === 'a login of both';
  return before === 'the session is linked to the customer' && after === 'a login as another customer';
}
const identitiesOf = ({ named, customerId, sessionId }: Case): Record<string, string>[] => [
  ...(named === 'session' ? [] : [{ customerId }]),
  ...(named === 'customer' ? [] : [{ sessionId }]),
];
function ownerOf({ before, named }: Case): 'the customer' | 'the session' | 'another customer' {
  const isSessionKnown = !['nobody is known', 'the customer is known'].includes(before);
  if (named === 'customer' || (named === 'both' && !isSessionKnown)) return 'the customer';
  if (before === 'the session is linked to the customer') return 'the customer';
  if (before !== "the session is another customer's") return 'the session';
  return named === 'both' ? 'the customer' : 'another customer';
}
const MAX_CONCURRENT_CASES = 24;
const ITEM = { productId: '11', variantId: '21' };
const { redis, clickhouse, env: stores } = await startStores(t, ['wishmeter']);
const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
t.teardown(() => connection.disconnect());
const env = { ...stores, SHOPIFY_SECRET: SECRET, SHOP_DOMAIN };
const app = await startApp(t, redis, { env, extras: extrasWith(privacyWith({ pollMs: 50 }), privacy) });
const flushing = await flush(readConfig({ ...env, KEY_PREFIX: app.prefix }), pino({ level: 'silent' }));
t.teardown(() => flushing.close());
const ask = <Row>(query: string) => select<Row>(client, query);

t.test('owners of orders', async (t) => {
  const { add, erase, exported, login } = app.shop;
  /** The profile id that an identity has or would get; creates nothing. */
  const profileOf = async (identity: Record<string, string>): Promise<string> => {
    const { json } = await app.post('/item/list', { identity }, TRUSTED);
    return json.profileId;
  };
  const forEach = async (act: (one: Case) => Promise<void>) => {
    for (let i = 0; i < CASES.length; i += MAX_CONCURRENT_CASES)
      await Promise.all(CASES.slice(i, i + MAX_CONCURRENT_CASES).map(act));
  };

  await switchTo(app, true);
  await forEach(async ({ before, customerId, otherId, sessionId }) => {
    for (const known of BEFORE[before]) {
      if (known === 'customer') await add({ customerId }, ITEM);
      else if (known === 'session') await add({ sessionId }, ITEM);
      else {
        const owner = known === 'linked' ? customerId : otherId;
        await login({ customerId: owner, sessionId });
        await add({ customerId: owner }, ITEM);
        if (known === 'foreign') await add({ customerId }, ITEM);
      }
    }
  });

  t.test('an order empties the wishlists of all whom it names, and links none of them', async (t) => {
    await forEach(async (one) => {
      const { name, named, customerId, sessionId, email, orderId } = one;
      const before = await Promise.all([profileOf({ customerId }), profileOf({ sessionId })]);
      const customer = named === 'session' ? null : { id: Number(customerId), email, state: 'disabled' };
      const others = [null, { name: 'gift' }];
      const note_attributes = named === 'customer' ? others : [...others, ...sessionNote(sessionId)];
      const line = { product_id: 11, variant_id: 21, price: '10.00' };
      const order = { ...orderOf(customer, [line], { email, note_attributes }), id: Number(orderId) };
      for (const repeat of [1, 2])
        t.equal((await deliver(app, order)).status, 200, `${name}: delivery ${repeat}`);
      t.same(await Promise.all([profileOf({ customerId }), profileOf({ sessionId })]), before, name);
      for (const identity of identitiesOf(one)) t.same(await listed(app, identity), [], name);
    });
  });

  t.test(
    'an export has the orders of the visitor’s profile, and the orders that name the customer',
    async (t) => {
      await until('all orders are in ClickHouse', async () => {
        const [row] = await ask<{ n: string }>('SELECT count() AS n FROM purchases');
        return Number(row?.n) === CASES.length;
      });
      // Until the next test, cases with the same beginning are alike, so one of each is enough.
      const kindOf = ({ before, named }: Case) => `${before}; ${named}`;
      const kinds = new Map(CASES.map((one) => [kindOf(one), one]));
      await forEach(async (one) => {
        if (kinds.get(kindOf(one)) !== one) return;
        const isSessions =
          ownerOf(one) !== 'the customer' || one.before === 'the session is linked to the customer';
        for (const identity of identitiesOf(one)) {
          const { purchases } = await exported(identity);
          const found = purchases.map(({ order_id }: { order_id: string }) => order_id);
          const isTheirs = identity['customerId'] !== undefined || isSessions;
          t.same(found, isTheirs ? [one.orderId] : [], `${one.name}: ${Object.keys(identity)}`);
        }
      });
    },
  );

  const expected = new Map<string, { name: string; profileId: string }>();
  t.test('after logins and moves, analysts see a purchase under the present profile', async (t) => {
    await forEach(async (one) => {
      const { name, after, customerId, otherId, sessionId } = one;
      if (after === 'a login of both' || after === 'a shared device') await login({ customerId, sessionId });
      if (after === 'a login as another customer' || after === 'a shared device')
        await login({ customerId: otherId, sessionId });
      if (after === 'another session of the customer') {
        await add({ sessionId: `${sessionId}-2` }, ITEM);
        await login({ customerId, sessionId: `${sessionId}-2` });
      }
      const present = {
        nothing: { sessionId },
        'a login of both': { customerId },
        'a login as another customer': { customerId: otherId },
        'another session of the customer': { sessionId },
        'a shared device': { customerId },
      };
      const owner = ownerOf(one);
      const identity =
        owner === 'the session'
          ? present[after]
          : { customerId: owner === 'the customer' ? customerId : otherId };
      expected.set(one.orderId, { name, profileId: await profileOf(identity as Record<string, string>) });
    });
    const seen = () =>
      ask<{ order_id: string; profile_id: string }>('SELECT order_id, profile_id FROM purchases_by_visitor');
    await until('every merge is in ClickHouse', async () =>
      (await seen()).every(({ order_id, profile_id }) => expected.get(order_id)?.profileId === profile_id),
    ).catch(() => {});
    const purchases = await seen();
    t.equal(purchases.length, CASES.length);
    for (const { order_id, profile_id } of purchases)
      t.equal(profile_id, expected.get(order_id)?.profileId, `${expected.get(order_id)?.name}`);
  });

  t.test('after an erasure no row of ClickHouse and no key of Redis names the erased visitor', async (t) => {
    const gone = new Map<Case, { readonly id: string; readonly stays: boolean }>();
    await forEach(async (one) => {
      const { name, customerId, sessionId, email, erasedBy, named, orderId } = one;
      const isSession =
        erasedBy === 'the session' || (erasedBy === 'the e-mail address' && named === 'session');
      const isOthers =
        erasedBy === 'the session' && (await profileOf({ sessionId })) !== expected.get(orderId)?.profileId;
      gone.set(one, { id: isSession ? sessionId : customerId, stays: isOthers && named !== 'customer' });
      if (erasedBy === 'the customer') await erase({ customerId });
      else if (erasedBy === 'the session') await erase({ sessionId });
      else if (erasedBy === 'the e-mail address') await erase({ email });
      else {
        const customer = { id: Number(customerId), email };
        const body = JSON.stringify({ shop_id: 1, shop_domain: SHOP_DOMAIN, customer });
        const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(body), 'x-shopify-webhook-id': name };
        t.equal((await app.post('/webhook/customers/redact', body, headers)).status, 200);
      }
    });
    const keys = createKeys(app.prefix);
    await until('all is erased from ClickHouse, and every webhook is done', async () => {
      await eraseAsFlusher(connection, keys, client);
      const open = await app.figure('requests_open{kind="customers/redact"}');
      return !open && (await connection.hlen(keys.erasures)) === 0;
    });
    const rows = await ask<{ customer_id: string | null; session_id: string | null }>(
      'SELECT customer_id, session_id FROM purchases UNION ALL SELECT customer_id, session_id FROM events',
    );
    const held = JSON.stringify(await app.dump());
    for (const [one, { id, stays }] of gone) {
      const left = rows.filter(({ customer_id, session_id }) => customer_id === id || session_id === id);
      t.equal(left.length > 0, stays, `${one.name}: ClickHouse`);
      // A customer remembers a session that was merged and has moved to another customer.
      if (id === one.customerId || !hasMoved(one))
        t.notMatch(held, new RegExp(`:${id}["\\\\]`), `${one.name}: Redis`);
    }
  });
});

t.test('statements of an order', async (t) => {
  const CREATED = '2026-03-02T10:15:00+01:00';
  const OCCURRED = '2026-03-02 09:15:00.000';
  /** The time of a statement of an order; each is a second after the one before. */
  const timeOf = (age: number) => `2026-03-02T10:15:${String(age).padStart(2, '0')}+01:00`;
  const line = (id: number, quantity: number, current: number, rest: object = {}) => ({
    ...{
      id,
      product_id: 100 + id,
      variant_id: 200 + id,
      price: '10.00',
      quantity,
      current_quantity: current,
    },
    ...{ total_discount: '0.00', discount_allocations: [{ amount: '3.00' }], ...rest },
  });
  const BOTH = [line(1, 3, 3), line(2, 1, 1, { discount_allocations: [] })];
  type Shown = readonly [product: string, quantity: number, discount: number, amount: number][];
  const BOTH_SHOWN: Shown = [
    ['101', 3, 3, 27],
    ['102', 1, 0, 10],
  ];
  /** The statements of an order in the order of its life: the body, and the lines then in `purchases`. */
  const STATEMENTS: Readonly<Record<string, { readonly body: object; readonly shown?: Shown }>> = {
    pending: { body: { financial_status: 'pending', line_items: BOTH } },
    paid: { body: { financial_status: 'paid', line_items: BOTH }, shown: BOTH_SHOWN },
    edited: {
      body: { financial_status: 'paid', line_items: [line(1, 3, 1), line(2, 1, 0), line(3, 2, 2)] },
      shown: [
        ['101', 1, 1, 9],
        ['103', 2, 3, 17],
      ],
    },
    'partly refunded': {
      body: { financial_status: 'partially_refunded', line_items: [line(1, 3, 2), line(2, 1, 0)] },
      shown: [['101', 2, 2, 18]],
    },
    'wholly refunded': { body: { financial_status: 'refunded', line_items: BOTH }, shown: [] },
    cancelled: {
      body: { financial_status: 'paid', cancelled_at: CREATED, line_items: BOTH },
      shown: [],
    },
    'cancelled, without a currency': {
      body: { financial_status: 'paid', cancelled_at: CREATED, currency: null, line_items: BOTH },
      shown: [],
    },
    voided: { body: { financial_status: 'voided', line_items: [] }, shown: [] },
    test: { body: { financial_status: 'paid', test: true, line_items: BOTH }, shown: BOTH_SHOWN },
  };
  const NAMES = Object.keys(STATEMENTS);
  /** A pending order changes nothing, whenever it arrives. */
  const shownAfter = (life: readonly string[]): Shown =>
    life.map((name) => STATEMENTS[name]?.shown).findLast((shown) => shown !== undefined) ?? [];
  function* permutations<T>(all: readonly T[]): Generator<T[]> {
    if (all.length < 2) yield [...all];
    for (const [i, one] of all.entries())
      for (const rest of permutations(all.toSpliced(i, 1))) yield [one, ...rest];
  }
  /** Each life has one, two or three statements in the order of their age; each arrives in every order. */
  const PAIRS = NAMES.flatMap((a) => NAMES.flatMap((b) => (a === b ? [] : [[a, b]])));
  const LIVES = [...NAMES.map((name) => [name]), ...PAIRS, ['paid', 'edited', 'wholly refunded']];
  const STATED = LIVES.flatMap((life) =>
    Array.from(permutations(life.map((_, age) => age)), (arrival) => ({ life, arrival })),
  );
  await emptyDatabase(client, 'wishmeter');
  const untilFlushed = () =>
    until('all rows are in ClickHouse', async () => {
      const { text } = await app.get('/metrics');
      const pending = [...text.matchAll(/^wishmeter_stream_pending_events\{.*\} (\d+)$/gm)];
      return pending.length > 0 && pending.every(([, rows]) => rows === '0');
    });
  /** Redis as it is a year later: every key with a TTL is gone. */
  async function passYear() {
    for (const key of await app.keys()) if ((await connection.ttl(key)) > 0) await connection.del(key);
  }
  interface Seen {
    readonly order_id: string;
    readonly lines: Shown;
    readonly at: string;
    readonly test: boolean;
  }
  async function seen(): Promise<Map<string, Seen>> {
    const rows = await ask<Seen>(`SELECT order_id, any(test) AS test, min(occurred_at) AS at,
      arraySort(groupArray((product_id, quantity, toFloat64(discount), toFloat64(amount)))) AS lines
    FROM purchases GROUP BY order_id`);
    return new Map(rows.map((row) => [row.order_id, row]));
  }
  t.test(
    'the newest statement of an order counts, in any order of arrival, also if all are repeated a year later',
    async (t) => {
      const orders = STATED.map(({ life, arrival }, i) => {
        const id = 10_000 + i;
        const customer = { id: 70_000 + i };
        const bodies = life.map((name, age) => ({
          ...{ id, customer, currency: 'EUR', created_at: CREATED, updated_at: timeOf(age) },
          ...STATEMENTS[name]?.body,
        }));
        const name = `${life.join(', ')}; arriving ${arrival.join('')}`;
        return { id: String(id), name, life, arrival, bodies };
      });
      const sendAll = async () => {
        for (let i = 0; i < orders.length; i += 100)
          await Promise.all(
            orders.slice(i, i + 100).map(async ({ arrival, bodies, name }) => {
              for (const age of arrival) {
                const topic = { 'x-shopify-topic': 'orders/updated' };
                const answer = await deliver(app, bodies[age] as object, undefined, topic);
                if (answer.status !== 200) throw new Error(`${name}: ${answer.status} ${answer.text}`);
              }
            }),
          );
      };
      const check = async (when: string) => {
        await untilFlushed();
        const found = await seen();
        const wrong = orders.filter(({ id, life }) => {
          const { lines = [], at = OCCURRED, test = life.at(-1) === 'test' } = found.get(id) ?? {};
          const last = life.findLast((name) => name !== 'pending');
          const isTest = lines.length === 0 || test === (last === 'test');
          return JSON.stringify([lines, at]) !== JSON.stringify([shownAfter(life), OCCURRED]) || !isTest;
        });
        const some = wrong.slice(0, 5).map(({ id, name }) => [name, found.get(id)]);
        t.same(some, [], `${wrong.length} of ${orders.length} orders ${when}`);
        const expected = orders.reduce((sum, { life }) => {
          const isTest = life.findLast((name) => name !== 'pending') === 'test';
          return sum + (isTest ? 0 : shownAfter(life).reduce((all, [, , , amount]) => all + amount, 0));
        }, 0);
        for (const view of [
          'purchases_by_visitor',
          "(SELECT * FROM steps_by_visitor WHERE step = 'purchase')",
        ]) {
          const revenue = await ask(`SELECT toFloat64(sum(amount)) AS revenue FROM ${view}`);
          t.same(revenue, [{ revenue: expected }], `${view} ${when}`);
        }
      };
      await sendAll();
      await check('as they came');
      await passYear();
      await sendAll();
      await check('repeated after all that ends has ended');
    },
  );
  t.test('an order without a time keeps the time of its first arrival, and can be corrected', async (t) => {
    const order = (quantity: number) => ({
      ...{ id: 5, customer: { id: 5 }, currency: 'EUR' },
      line_items: [{ product_id: 1, quantity, price: '1.00' }],
    });
    const shown = async (quantity: number) => {
      const query = "SELECT occurred_at AS at, quantity FROM purchases WHERE order_id = '5'";
      let rows: { at: string; quantity: number }[] = [];
      await until(`${quantity} pieces`, async () => {
        rows = await ask(query);
        return rows[0]?.quantity === quantity;
      });
      return rows;
    };
    await deliver(app, order(2));
    const [first] = await shown(2);
    for (const quantity of [2, 3, 3, 1]) await deliver(app, order(quantity));
    t.same(await shown(1), [{ ...first, quantity: 1 }]);
  });
  /** The statements that count as a purchase and leave something bought. */
  const TAKING = ['paid', 'edited', 'partly refunded'];
  t.test(
    'the first delivery that counts removes the bought items from the wishlist, and no later one does',
    async (t) => {
      await Promise.all(
        PAIRS.map(async (life, i) => {
          const who = { customerId: String(900_000 + i) };
          const name = life.join(', ');
          let isTaken = false;
          await add(app, who, ['101', '201']);
          for (const [age, state] of [...life.entries(), [0, life[0]] as const]) {
            await deliver(app, {
              ...{ id: 600_000 + i, customer: { id: 900_000 + i }, currency: 'EUR', updated_at: timeOf(age) },
              ...STATEMENTS[state ?? '']?.body,
            });
            const takes: boolean = TAKING.includes(state ?? '') && !isTaken;
            t.equal((await listed(app, who)).length, takes ? 0 : 1, `${name}: ${state}`);
            if (takes) await add(app, who, ['101', '201']);
            isTaken ||= takes;
          }
        }),
      );
      const taking = PAIRS.filter((life) => life.some((state) => TAKING.includes(state)));
      await until('an event for each item that left', async () => {
        const query = "SELECT event_id FROM events WHERE type = 'autoRemoveAfterPurchase'";
        return (await ask(query)).length === taking.length;
      });
    },
  );
});
