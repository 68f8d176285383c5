// Whose an order is, and what becomes of it: who it names (a customer, a session, both), what was known of them before,
// and what follows (a login, another session, a shared device) — then the export, the analysts' views, and each way to erase.
// All cases run side by side, through a real flusher and ClickHouse; nothing in one may touch another. Each two values of
// any two of the four come together; on the cluster some cases do. FAULTS=full: every combination on both.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { eraseAsFlusher } from '../flush/fixtures.js';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { connectToClickHouse, emptyDatabase, startTestClickHouse } from '../harness/clickhouse.js';
import { dumpRedis } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { deliver, JSON_TYPE, listed, orderOf, SECRET, sessionNote, sign, switchTo } from './orders.js';

/** What was known before the order came. */
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

interface Case {
  readonly name: string;
  readonly before: keyof typeof BEFORE;
  readonly named: (typeof NAMED)[number];
  readonly after: (typeof AFTER)[number];
  readonly erasedBy: (typeof ERASED_BY)[number];
  readonly customerId: string;
  readonly otherId: string;
  readonly sessionId: string;
  readonly email: string;
  readonly orderId: string;
}

const IS_FULL = process.env['FAULTS'] === 'full';
const LOGIN_OF_BOTH = AFTER.indexOf('a login of both');

const CASES: readonly Case[] = Object.keys(BEFORE).flatMap((before, b) =>
  NAMED.flatMap((named, n) =>
    AFTER.flatMap((after, a) =>
      ERASED_BY.flatMap((erasedBy, e): Case[] => {
        const isChosen = (a + b) % NAMED.length === n || a === LOGIN_OF_BOTH;
        if (!IS_FULL && !(isChosen && (a + b) % ERASED_BY.length === e)) return [];
        const number = `${b + 1}${n + 1}${a + 1}${e + 1}`;
        return [
          {
            name: `${before}; the order names ${named}; then ${after}; erased by ${erasedBy}`,
            before: before as keyof typeof BEFORE,
            named,
            after,
            erasedBy,
            customerId: `71${number}001`,
            otherId: `71${number}002`,
            sessionId: `order-${number}-session`,
            email: `order-${number}@histories.example`,
            orderId: `71${number}009`,
          },
        ];
      }),
    ),
  ),
);
/** Of these each fourth has every value, and the cluster adds nothing to a pair. */
const CLUSTER_CASES = IS_FULL ? CASES : CASES.filter((_, i) => i % 4 === 0);

t.test('the cases have each pair of values', async (t) => {
  const lists = { before: Object.keys(BEFORE), named: NAMED, after: AFTER, erasedBy: ERASED_BY };
  const fields = Object.keys(lists) as (keyof typeof lists)[];
  for (const [i, one] of fields.entries())
    for (const other of fields.slice(i + 1)) {
      const pairs = new Set(CASES.map((found) => `${found[one]}; ${found[other]}`));
      t.equal(pairs.size, lists[one].length * lists[other].length, `${one} and ${other}`);
    }
  for (const field of fields)
    t.equal(new Set(CLUSTER_CASES.map((found) => found[field])).size, lists[field].length, field);
});

/** Whether the session was one customer's and then another's. */
function hasMoved({ before, after }: Case): boolean {
  if (after === 'a shared device') return true;
  if (before === "the session is another customer's") return after === 'a login of both';
  return before === 'the session is linked to the customer' && after === 'a login as another customer';
}

/** Whom the order names. */
const identitiesOf = ({ named, customerId, sessionId }: Case): Record<string, string>[] => [
  ...(named === 'session' ? [] : [{ customerId }]),
  ...(named === 'customer' ? [] : [{ sessionId }]),
];

/** Whose the order's row is when it comes. */
function ownerOf({ before, named }: Case): 'the customer' | 'the session' | 'another customer' {
  const isSessionKnown = !['nobody is known', 'the customer is known'].includes(before);
  if (named === 'customer' || (named === 'both' && !isSessionKnown)) return 'the customer';
  if (before === 'the session is linked to the customer') return 'the customer';
  return before === "the session is another customer's" ? 'another customer' : 'the session';
}

/** Cases that are done at once. */
const AT_ONCE = 24;
const ITEM = { productId: '11', variantId: '21' };
const clickhouse = await startTestClickHouse(t, { databases: ['wishmeter'] });

eachRedis(t, async (t, redis) => {
  const cases = redis.urls.length === 1 ? CASES : CLUSTER_CASES;
  const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  await emptyDatabase(client, 'wishmeter');
  const env = { CLICKHOUSE_URL: clickhouse.url, FLUSH_INTERVAL_MS: '50', SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env, timing: { compliancePollMs: 50 } });
  const { add, erase, exported, login } = app.shop;
  const flushing = await flush(
    readConfig({ ...env, REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix }),
    pino({ level: 'silent' }),
  );
  t.teardown(() => flushing.close());
  const ask = async <Row>(query: string): Promise<Row[]> =>
    (await client.query({ query, format: 'JSONEachRow' })).json<Row>();
  /** The profile that an identity has, or would get; makes nothing. */
  const profileOf = async (identity: Record<string, string>): Promise<string> => {
    const { json } = await app.post('/item/list', { identity }, TRUSTED);
    return json.profileId;
  };
  const forEach = async (act: (one: Case) => Promise<void>) => {
    for (let i = 0; i < cases.length; i += AT_ONCE) await Promise.all(cases.slice(i, i + AT_ONCE).map(act));
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

  t.test('an order empties the wishlists of those whom it names, and links no two of them', async (t) => {
    await forEach(async (one) => {
      const { name, named, customerId, sessionId, email, orderId } = one;
      const before = await Promise.all([profileOf({ customerId }), profileOf({ sessionId })]);
      const customer = named === 'session' ? null : { id: Number(customerId), email, state: 'disabled' };
      const note_attributes = named === 'customer' ? [] : sessionNote(sessionId);
      const line = { product_id: 11, variant_id: 21, price: '10.00' };
      const order = { ...orderOf(customer, [line], { email, note_attributes }), id: Number(orderId) };
      for (const repeat of [1, 2])
        t.equal((await deliver(app, order)).status, 200, `${name}: delivery ${repeat}`);
      t.same(await Promise.all([profileOf({ customerId }), profileOf({ sessionId })]), before, name);
      for (const identity of identitiesOf(one)) t.same(await listed(app, identity), [], name);
    });
  });

  t.test('each visitor whom an order names finds its purchase in the export', async (t) => {
    await until('all orders are in ClickHouse', async () => {
      const [row] = await ask<{ n: string }>('SELECT count() AS n FROM purchases');
      return Number(row?.n) === cases.length;
    });
    await forEach(async (one) => {
      for (const identity of identitiesOf(one)) {
        const { purchases } = await exported(identity);
        t.match(purchases, [{ order_id: one.orderId }], `${one.name}: ${Object.keys(identity)}`);
      }
    });
  });

  t.test('after what follows, analysts see the purchase under the present profile', async (t) => {
    const expected = new Map<string, { name: string; profileId: string }>();
    await forEach(async (one) => {
      const { name, after, customerId, otherId, sessionId } = one;
      if (after === 'a login of both' || after === 'a shared device') await login({ customerId, sessionId });
      if (after === 'a login as another customer' || after === 'a shared device')
        await login({ customerId: otherId, sessionId });
      if (after === 'another session of the customer') {
        await add({ sessionId: `${sessionId}-2` }, ITEM);
        await login({ customerId, sessionId: `${sessionId}-2` });
      }
      // A session's default profile goes with its first login.
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
    t.equal(purchases.length, cases.length);
    for (const { order_id, profile_id } of purchases)
      t.equal(profile_id, expected.get(order_id)?.profileId, `${expected.get(order_id)?.name}`);
  });

  t.test('once erased, no row of ClickHouse and no key of Redis names who was erased', async (t) => {
    /** The id of which each case's erasure must leave no trace. */
    const gone = new Map<Case, string>();
    await forEach(async (one) => {
      const { name, customerId, sessionId, email, erasedBy, named } = one;
      if (erasedBy === 'the customer') await erase({ customerId });
      else if (erasedBy === 'the session') await erase({ sessionId });
      else if (erasedBy === 'the e-mail address') await erase({ email });
      else {
        const customer = { id: Number(customerId), email };
        const body = JSON.stringify({ shop_id: 1, shop_domain: 'x', customer });
        const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(body), 'x-shopify-webhook-id': name };
        t.equal((await app.post('/webhook/customers/redact', body, headers)).status, 200);
      }
      const isSession =
        erasedBy === 'the session' || (erasedBy === 'the e-mail address' && named === 'session');
      gone.set(one, isSession ? sessionId : customerId);
    });
    const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
    t.teardown(() => connection.disconnect());
    const keys = createKeys(app.prefix);
    await until('all is erased from ClickHouse, and every webhook is done', async () => {
      await eraseAsFlusher(connection, keys, client);
      const open = await app.figure('requests_open{kind="customers/redact"}');
      return !open && (await connection.hlen(keys.erasures)) === 0;
    });
    const rows = await ask<{ customer_id: string | null; session_id: string | null }>(
      'SELECT customer_id, session_id FROM purchases UNION ALL SELECT customer_id, session_id FROM events',
    );
    const held = JSON.stringify(await dumpRedis(redis, app.prefix));
    for (const [one, id] of gone) {
      const left = rows.filter(({ customer_id, session_id }) => customer_id === id || session_id === id);
      t.same(left, [], `${one.name}: ClickHouse`);
      // A session that left a customer is remembered as one that is not that customer's any more.
      if (id === one.customerId || !hasMoved(one)) t.notOk(held.includes(`:${id}"`), `${one.name}: Redis`);
    }
  });
});
