// An order is stated, and can be stated again: whatever its statements say, in whichever order they arrive and however often
// they are repeated, analysts see what the newest one says. Every order of arrival of two and three statements is an order of
// its own; all of them pass one ClickHouse. A repeat much later is one after everything in Redis that ends has ended.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { startApp } from '../harness/app.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { openRedis, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { add, deliver, listed, SECRET, switchTo } from './orders.js';

const CREATED = '2026-03-02T10:15:00+01:00';
const OCCURRED = '2026-03-02 09:15:00.000';
/** Of the time of the statements of one order; each is a second after the one before. */
const timeOf = (age: number) => `2026-03-02T10:15:${String(age).padStart(2, '0')}+01:00`;

const line = (id: number, quantity: number, current: number, rest: object = {}) => ({
  ...{ id, product_id: 100 + id, variant_id: 200 + id, price: '10.00', quantity, current_quantity: current },
  ...{ total_discount: '0.00', discount_allocations: [{ amount: '3.00' }], ...rest },
});
const BOTH = [line(1, 3, 3), line(2, 1, 1, { discount_allocations: [] })];
type Shown = readonly [product: string, quantity: number, discount: number, amount: number][];
const BOTH_SHOWN: Shown = [
  ['101', 3, 3, 27],
  ['102', 1, 0, 10],
];

/** What an order may state, in the order of its life: the body, and the lines that are then in `purchases`. */
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
  voided: { body: { financial_status: 'voided', line_items: [] }, shown: [] },
  test: { body: { financial_status: 'paid', test: true, line_items: BOTH }, shown: BOTH_SHOWN },
};
const NAMES = Object.keys(STATEMENTS);
/** A pending order says nothing, whenever it comes. */
const shownAfter = (life: readonly string[]): Shown =>
  life.map((name) => STATEMENTS[name]?.shown).findLast((shown) => shown !== undefined) ?? [];

function* permutations<T>(all: readonly T[]): Generator<T[]> {
  if (all.length < 2) yield [...all];
  for (const [i, one] of all.entries())
    for (const rest of permutations(all.toSpliced(i, 1))) yield [one, ...rest];
}

const IS_FULL = process.env['FAULTS'] === 'full';
/** Of three statements each so many'th case, unless FAULTS=full; it divides none of their numbers. */
const THINNED = 5;

/** One, two and three statements in the order of their age, and each order in which they arrive. */
const LIVES = NAMES.flatMap((a) => {
  const second = NAMES.filter((b) => b !== a);
  const third = (b: string) => second.filter((c) => c !== b);
  return [[a], ...second.map((b) => [a, b]), ...second.flatMap((b) => third(b).map((c) => [a, b, c]))];
});
const CASES = LIVES.flatMap((life) =>
  Array.from(permutations(life.map((_, age) => age)), (arrival) => ({ life, arrival })),
).filter(({ life }, i) => IS_FULL || life.length < 3 || i % THINNED === 0);

const redis = await startTestRedis(t);
const clickhouse = await startTestClickHouse(t, { databases: ['wishmeter'] });
const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
const env = { CLICKHOUSE_URL: clickhouse.url, FLUSH_INTERVAL_MS: '50', SHOPIFY_SECRET: SECRET };
const app = await startApp(t, redis, { env });
const flushing = await flush(
  readConfig({ ...env, REDIS_URL: redis.url, KEY_PREFIX: app.prefix }),
  pino({ level: 'silent' }),
);
t.teardown(() => flushing.close());

const ask = async <Row>(query: string): Promise<Row[]> =>
  (await client.query({ query, format: 'JSONEachRow' })).json<Row>();
const untilFlushed = () =>
  until('all rows are in ClickHouse', async () => {
    const { text } = await app.get('/metrics');
    const pending = [...text.matchAll(/^wishmeter_stream_pending_events\{.*\} (\d+)$/gm)];
    return pending.length > 0 && pending.every(([, rows]) => rows === '0');
  });
const redisClient = openRedis(redis.url);
t.teardown(() => redisClient.disconnect());
/** As Redis is a year later: nothing that ends is left. */
async function passYear() {
  for (const key of await redisClient.keys(`${app.prefix}*`))
    if ((await redisClient.ttl(key)) > 0) await redisClient.del(key);
}

interface Seen {
  readonly order_id: string;
  readonly lines: Shown;
  readonly at: string;
  readonly test: boolean;
}

/** Every order as analysts see it. */
async function seen(): Promise<Map<string, Seen>> {
  const rows = await ask<Seen>(`SELECT order_id, any(test) AS test, min(occurred_at) AS at,
      arraySort(groupArray((product_id, quantity, toFloat64(discount), toFloat64(amount)))) AS lines
    FROM purchases GROUP BY order_id`);
  return new Map(rows.map((row) => [row.order_id, row]));
}

t.test(
  'the newest statement counts, in any order of arrival, also when each is repeated much later',
  async (t) => {
    const orders = CASES.map(({ life, arrival }, i) => {
      const id = 10_000 + i;
      const customer = { id: 70_000 + i };
      const bodies = life.map((name, age) => ({
        ...{ id, customer, currency: 'EUR', created_at: CREATED, updated_at: timeOf(age) },
        ...STATEMENTS[name]?.body,
      }));
      return {
        id: String(id),
        name: `${life.join(', ')}; arriving ${arrival.join('')}`,
        life,
        arrival,
        bodies,
      };
    });
    const sendAll = async () => {
      for (let i = 0; i < orders.length; i += 100)
        await Promise.all(
          orders.slice(i, i + 100).map(async ({ arrival, bodies, name }) => {
            for (const age of arrival) {
              const answer = await deliver(app, bodies[age] as object, undefined, {
                'x-shopify-topic': 'orders/updated',
              });
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
      t.same(
        wrong.slice(0, 5).map(({ id, name }) => [name, found.get(id)]),
        [],
        `${wrong.length} of ${orders.length} orders ${when}`,
      );
      const expected = orders.reduce((sum, { life }) => {
        const isTest = life.findLast((name) => name !== 'pending') === 'test';
        return sum + (isTest ? 0 : shownAfter(life).reduce((all, [, , , amount]) => all + amount, 0));
      }, 0);
      for (const view of ['purchases_by_visitor', "(SELECT * FROM steps_by_visitor WHERE step = 'purchase')"])
        t.same(
          await ask(`SELECT toFloat64(sum(amount)) AS revenue FROM ${view}`),
          [{ revenue: expected }],
          `revenue of ${view} ${when}`,
        );
    };
    await sendAll();
    await check('as they came');
    await sendAll();
    await check('repeated');
    await passYear();
    await sendAll();
    await check('repeated after all that ends has ended');
  },
);

t.test('an order that says no time keeps the time when it came first, and can be corrected', async (t) => {
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

/** Those that count as a purchase and leave something bought. */
const TAKING = ['paid', 'edited', 'partly refunded'];

t.test('the first delivery that counts takes what was bought from the wishlist, once', async (t) => {
  await switchTo(app, true);
  const lives = LIVES.filter(({ length }) => length === 2);
  await Promise.all(
    lives.map(async (life, i) => {
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
  const taking = lives.filter((life) => life.some((state) => TAKING.includes(state)));
  await until('an event for each item that left', async () => {
    const [row] = await ask<{ n: number }>(
      "SELECT toUInt32(count()) AS n FROM events WHERE type = 'autoRemoveAfterPurchase'",
    );
    return row?.n === taking.length;
  });
});
