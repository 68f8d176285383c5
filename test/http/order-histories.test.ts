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
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { dumpRedis } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { deliver, JSON_TYPE, listed, orderOf, SECRET, sign, switchTo } from './orders.js';
import { itemOf } from './wishlist.js';

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

/** Cases that are done at once. */
const AT_ONCE = 24;

eachRedis(t, async (t, redis) => {
  const cases = redis.urls.length === 1 ? CASES : CLUSTER_CASES;
  const clickhouse = await startTestClickHouse(t, { databases: ['wishmeter'] });
  const env = {
    CLICKHOUSE_URL: clickhouse.url,
    FLUSH_INTERVAL_MS: '50',
    SHOPIFY_SECRET: SECRET,
  };
  const app = await startApp(t, redis, { env, timing: { compliancePollMs: 50 } });
  const log = pino({ level: 'silent' });
  const flushing = await flush(
    readConfig({ ...env, REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix, EVENT_SHARDS: '1' }),
    log,
  );
  t.teardown(() => flushing.close());
  const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  const ask = async <Row>(query: string): Promise<Row[]> =>
    (await client.query({ query, format: 'JSONEachRow' })).json<Row>();

  const profileOf = async (query: Record<string, string>): Promise<string> =>
    (await app.get(withQuery('/product/visit', { ...query, productHandle: 'x' }), TRUSTED)).json.profileId;
  const login = (customerId: string, sessionId: string) =>
    app.post('/profile/merge', { identity: { customerId, sessionId } }, TRUSTED);
  const wish = (identity: object) =>
    app.post('/item/add', itemOf(identity, { productId: '11', variantId: '21' }), TRUSTED);
  const forEach = async (act: (one: Case) => Promise<void>) => {
    for (let i = 0; i < cases.length; i += AT_ONCE) await Promise.all(cases.slice(i, i + AT_ONCE).map(act));
  };

  /** The profile whose the row is, by case, when the order came. */
  const rowOwner = new Map<Case, 'customer' | 'session' | 'foreign'>();
  await switchTo(app, true);
  await forEach(async (one) => {
    const { customerId, otherId, sessionId } = one;
    for (const known of BEFORE[one.before]) {
      if (known === 'customer') await wish({ customerId });
      else if (known === 'session') await wish({ sessionId });
      else {
        const owner = known === 'linked' ? customerId : otherId;
        await login(owner, sessionId);
        await wish({ customerId: owner });
        if (known === 'foreign') await wish({ customerId });
      }
    }
    const isSessionKnown = !['nobody is known', 'the customer is known'].includes(one.before);
    const bySession = one.named === 'session' || (one.named === 'both' && isSessionKnown);
    if (!bySession) rowOwner.set(one, 'customer');
    else if (one.before === 'the session is linked to the customer') rowOwner.set(one, 'customer');
    else if (one.before === "the session is another customer's") rowOwner.set(one, 'foreign');
    else rowOwner.set(one, 'session');
  });

  t.test(
    'an order empties the wishlist of each visitor whom it names, and links no two of them',
    async (t) => {
      await forEach(async (one) => {
        const { customerId, sessionId, email, orderId } = one;
        const before = await Promise.all([profileOf({ customerId }), profileOf({ sessionId })]);
        const order = {
          ...orderOf(
            one.named === 'session' ? null : { id: Number(customerId), email, state: 'disabled' },
            [{ product_id: 11, variant_id: 21, price: '10.00' }],
            {
              email,
              currency: 'EUR',
              note_attributes:
                one.named === 'customer' ? [] : [{ name: 'wishlist_session_id', value: sessionId }],
            },
          ),
          id: Number(orderId),
        };
        for (const repeat of [1, 2])
          t.equal((await deliver(app, order)).status, 200, `${one.name}: delivery ${repeat}`);
        t.same(await Promise.all([profileOf({ customerId }), profileOf({ sessionId })]), before, one.name);
        if (one.named !== 'session') t.same(await listed(app, { customerId }), [], one.name);
        if (one.named !== 'customer') t.same(await listed(app, { sessionId }), [], one.name);
      });
    },
  );

  t.test('each visitor whom an order names finds its purchase in the export', async (t) => {
    await until('all orders are in ClickHouse', async () => {
      const [row] = await ask<{ n: string }>('SELECT count() AS n FROM purchases');
      return Number(row?.n) === cases.length;
    });
    await forEach(async (one) => {
      const { customerId, sessionId, orderId } = one;
      const named = one.named === 'both' ? [{ customerId }, { sessionId }] : [{ customerId, sessionId }];
      if (one.named === 'customer') named.splice(0, 1, { customerId } as never);
      if (one.named === 'session') named.splice(0, 1, { sessionId } as never);
      for (const query of named) {
        const { purchases } = (await app.get(withQuery('/profile', query), TRUSTED)).json;
        t.match(purchases, [{ order_id: orderId }], `${one.name}: ${Object.keys(query)}`);
      }
    });
  });

  t.test('after what follows, analysts see the purchase under the present profile', async (t) => {
    await forEach(async (one) => {
      const { customerId, otherId, sessionId } = one;
      if (one.after === 'a login of both') await login(customerId, sessionId);
      else if (one.after === 'a login as another customer') await login(otherId, sessionId);
      else if (one.after === 'another session of the customer') {
        await wish({ sessionId: `${sessionId}-2` });
        await login(customerId, `${sessionId}-2`);
      } else if (one.after === 'a shared device') {
        await login(customerId, sessionId);
        await login(otherId, sessionId);
      }
    });
    const expected = new Map<string, { one: Case; profileId: string }>();
    await forEach(async (one) => {
      const { customerId, otherId, sessionId, after } = one;
      const owner = rowOwner.get(one);
      const present = () => {
        if (owner === 'customer') return profileOf({ customerId });
        if (owner === 'foreign') return profileOf({ customerId: otherId });
        if (after === 'a login of both' || after === 'a shared device') return profileOf({ customerId });
        return after === 'a login as another customer'
          ? profileOf({ customerId: otherId })
          : profileOf({ sessionId });
      };
      expected.set(one.orderId, { one, profileId: await present() });
    });
    const seen = () =>
      ask<{ order_id: string; profile_id: string }>('SELECT order_id, profile_id FROM purchases_by_visitor');
    await until('every merge is in ClickHouse', async () =>
      (await seen()).every(({ order_id, profile_id }) => expected.get(order_id)?.profileId === profile_id),
    ).catch(() => {});
    const purchases = await seen();
    t.equal(purchases.length, cases.length);
    for (const { order_id, profile_id } of purchases)
      t.equal(profile_id, expected.get(order_id)?.profileId, `${expected.get(order_id)?.one.name}`);
  });

  t.test('once erased, no row of ClickHouse and no key of Redis names who was erased', async (t) => {
    /** What each case's erasure must leave no trace of. */
    const gone = new Map<Case, string[]>();
    let webhooks = 0;
    await forEach(async (one) => {
      const { customerId, sessionId, email, erasedBy, named } = one;
      const erase = async (identity: object) => {
        const { status, json } = await app.del('/profile', { identity }, TRUSTED);
        t.equal(status, 200, `${one.name}: ${JSON.stringify(json)}`);
      };
      if (erasedBy === 'the customer') await erase({ customerId });
      else if (erasedBy === 'the session') await erase({ sessionId });
      else if (erasedBy === 'the e-mail address') await erase({ email });
      else {
        const body = JSON.stringify({
          shop_id: 1,
          shop_domain: 'x',
          customer: { id: Number(customerId), email },
        });
        const headers = {
          ...JSON_TYPE,
          'x-shopify-topic': 'customers/redact',
          'x-shopify-hmac-sha256': sign(body),
          'x-shopify-webhook-id': `histories-${++webhooks}`,
        };
        t.equal((await app.post('/webhook/customers/redact', body, headers)).status, 200);
      }
      if (erasedBy === 'the session') gone.set(one, [sessionId]);
      else if (erasedBy === 'the e-mail address')
        gone.set(one, named === 'session' ? [sessionId] : [customerId]);
      else gone.set(one, [customerId]);
    });
    const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
    t.teardown(() => connection.disconnect());
    const keys = createKeys(app.prefix);
    await until('all is erased from ClickHouse, and every webhook is done', async () => {
      await eraseAsFlusher(connection, keys, client);
      const isOpen = /^wishmeter_requests_open\{kind="customers\/redact"\} [1-9]/m.test(await app.figures());
      return !isOpen && (await connection.hlen(keys.erasures)) === 0;
    });
    const rows = await ask<{ order_id: string; customer_id: string | null; session_id: string | null }>(
      'SELECT order_id, customer_id, session_id FROM purchases',
    );
    const events = await ask<{ customer_id: string | null; session_id: string | null }>(
      'SELECT customer_id, session_id FROM events',
    );
    const held = JSON.stringify(await dumpRedis(redis, app.prefix));
    await forEach(async (one) => {
      for (const id of gone.get(one) ?? []) {
        const found = (
          await app.get(
            withQuery('/profile', id === one.sessionId ? { sessionId: id } : { customerId: id }),
            TRUSTED,
          )
        ).json;
        t.match(
          found,
          { items: [], visits: {}, shares: [], events: [], visitLog: [], purchases: [] },
          one.name,
        );
      }
    });
    for (const [one, ids] of gone)
      for (const id of ids) {
        const names = (row: { customer_id: string | null; session_id: string | null }) =>
          row.customer_id === id || row.session_id === id;
        t.same(rows.filter(names), [], `${one.name}: purchases`);
        t.same(events.filter(names), [], `${one.name}: events`);
        // A session that left a customer is remembered as one that is not that customer's any more.
        if (id === one.customerId || !hasMoved(one)) t.notOk(held.includes(`:${id}"`), `${one.name}: Redis`);
      }
  });
});
