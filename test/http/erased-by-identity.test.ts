// An erasure and an export go by profile, by customer id and by session id: rows that name an identity of the visitor
// under another profile are the visitor's, too. From streams, dead letters and ClickHouse.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { readConfig } from '../../src/config.js';
import { visitStreams } from '../../src/flush/backlog.js';
import { eraseWaiting } from '../../src/flush/eraser.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { fixedShards } from '../flush/fixtures.js';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { until } from '../harness/until.js';

interface Who {
  readonly customerId?: string;
  readonly sessionId?: string;
}

eachRedis(t, async (t, redis) => {
  const clickhouse = await startTestClickHouse({ databases: ['wishmeter'] });
  t.teardown(() => clickhouse.stop());
  const client = createClickHouse(clickhouse.url, 'wishmeter');
  t.teardown(() => client.close());
  const env = {
    CLICKHOUSE_URL: clickhouse.url,
    BUCKETS: '64',
    FLUSH_INTERVAL_MS: '20',
  };
  const app = await startApp(t, redis, { env });
  const log = pino({ level: 'silent' });
  const flushing = await flush(
    readConfig({
      ...env,
      REDIS_URL: redis.urls.join(','),
      KEY_PREFIX: app.prefix,
      EVENT_SHARDS: '1',
    }),
    log,
  );
  t.teardown(() => flushing.close());
  const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
  t.teardown(() => connection.disconnect());
  const keys = createKeys(app.prefix);

  const event = async (identity: Who) =>
    (await app.post('/event', { identity, type: 'add', payload: { productId: '1' } }, TRUSTED)).json
      .profileId;
  let orders = 0;
  const order = (customerId?: string, sessionId?: string) =>
    app.post(
      '/webhook/purchase',
      {
        id: `${app.prefix}-${++orders}`,
        ...(customerId === undefined ? {} : { customer: { id: customerId } }),
        note_attributes: sessionId === undefined ? [] : [{ name: 'wishlist_session_id', value: sessionId }],
        line_items: [{ product_id: 1, price: '1' }],
      },
      TRUSTED,
    );
  const read = async (query: Record<string, string>) =>
    (await app.get(withQuery('/profile', query), TRUSTED)).json;
  const erase = async (identity: Record<string, string>) =>
    (await app.del('/profile', { identity }, TRUSTED)).json;
  const rows = async (condition: string) => {
    const query = `SELECT toUInt32(count()) AS n FROM events_stored WHERE ${condition}`;
    const answer = await client.query({ query, format: 'JSONEachRow' });
    return (await answer.json<{ n: number }>())[0]?.n;
  };
  const stored = (n: number, condition: string) =>
    until(`${n} rows: ${condition}`, async () => (await rows(condition)) === n);
  const spec = async () => ({
    redis: connection,
    keys,
    clickhouse: client,
    shards: fixedShards(1),
    visitStreams: await visitStreams(connection, keys),
    log,
  });
  const untilErased = () =>
    until('nothing is left to erase', async () => {
      await eraseWaiting(await spec(), 0);
      return (await connection.hlen(keys.erasures)) === 0;
    });
  const steps = async () => {
    const answer = await client.query({
      query:
        'SELECT toUInt32(count()) AS n FROM steps_stored WHERE event NOT IN (SELECT sipHash64(event_id) FROM events_stored)',
      format: 'JSONEachRow',
    });
    return (await answer.json<{ n: number }>())[0]?.n;
  };

  const LONG = 'x'.repeat(200);
  for (const [how, customerId, sessionId] of [
    ['ids in clear', '5501', 'by-name-1'],
    ['long ids, which Redis holds hashed', `c${LONG}`, `s${LONG}`],
    ["ids with SQL's own characters", "5503' OR 1=1 --\\", "by-name-3\\', 'x"],
  ] as const) {
    t.test(`rows under another visitor's profile go with the id that they name: ${how}`, async (t) => {
      const count = async (column: string, id: string) => {
        const answer = await client.query({
          query: `SELECT toUInt32(count()) AS n FROM events_stored WHERE ${column} = {id: String}`,
          query_params: { id },
          format: 'JSONEachRow',
        });
        return (await answer.json<{ n: number }>())[0]?.n;
      };
      // The order of a guest names a customer, and belongs to the guest's profile.
      await event({ sessionId });
      await order(customerId, sessionId);
      await event({ customerId: 'bystander' });
      await until('all is in ClickHouse', async () => (await count('session_id', sessionId)) === 2);
      t.equal((await read({ customerId })).purchases.length, 1, 'told');
      await erase({ customerId });
      t.match(await read({ customerId }), { events: [], purchases: [] });
      await untilErased();
      t.equal(await count('customer_id', customerId), 0, 'gone');
      t.equal(await count('session_id', sessionId), 1, "the guest's other rows stay");

      // The session was one customer's, and is another one's now.
      const [first, second] = [{ customerId: `1${customerId}` }, { customerId: `2${customerId}` }];
      await event({ ...first, sessionId });
      await event(first);
      await event({ ...second, sessionId });
      await until('all is in ClickHouse', async () => (await count('session_id', sessionId)) === 3);
      t.equal((await read(second)).events.length, 3, 'told');
      t.same(await erase({ sessionId }), { erased: true });
      await untilErased();
      t.equal(await count('session_id', sessionId), 0, 'gone');
      t.equal(await count('customer_id', first.customerId), 1, "the first customer's other rows stay");
      t.equal(await steps(), 0, 'also what analysts query of it');
      t.ok(await rows("customer_id = 'bystander'"), "another visitor's rows stay");
    });
  }

  t.test('a row under another profile goes with its session', async (t) => {
    await order(undefined, 'of-order');
    await event({ customerId: '5510' });
    await event({ customerId: '5510', sessionId: 'of-order' });
    await stored(2, "session_id = 'of-order'");
    t.equal((await read({ customerId: '5510' })).purchases.length, 1);
    await erase({ customerId: '5510' });
    await untilErased();
    t.equal(await rows("session_id = 'of-order' OR customer_id = '5510'"), 0);
  });

  t.test('a session that has moved to another customer since stays there', async (t) => {
    await event({ customerId: '5520', sessionId: 'moves' });
    await event({ customerId: '5521', sessionId: 'moves' });
    await stored(2, "session_id = 'moves'");
    t.same((await read({ customerId: '5520' })).identities.sessionIds, []);
    t.equal((await read({ customerId: '5520' })).events.length, 1);
    await erase({ customerId: '5520' });
    await untilErased();
    t.equal(await rows("customer_id = '5521' AND session_id = 'moves'"), 1);
    t.same((await read({ customerId: '5521' })).identities.sessionIds, ['moves']);
    await erase({ customerId: '5521' });
    await untilErased();
    t.equal(await rows("session_id = 'moves'"), 0);
  });

  t.test('what comes after the erasure is of a new visitor and stays', async (t) => {
    await order('5530');
    await stored(1, "customer_id = '5530'");
    await erase({ customerId: '5530' });
    await new Promise((done) => setTimeout(done, 5)); // what is of the erasure's own millisecond counts as erased
    await event({ customerId: '5530' });
    await stored(2, "customer_id = '5530'");
    t.match(await read({ customerId: '5530' }), {
      events: { length: 1 },
      purchases: [],
    });
    await untilErased();
    t.equal(await rows("customer_id = '5530'"), 1);
    t.equal((await read({ customerId: '5530' })).events.length, 1);
  });

  t.test('by e-mail address and by webhook the same', async (t) => {
    const email = 'by-name@rights.example';
    await order('5540');
    await event({ sessionId: 'mailed' });
    await event({
      customerId: '5540',
      sessionId: 'mailed',
      ...({ email } as object),
    });
    await order('5541');
    await stored(2, "customer_id = '5540'");
    await stored(1, "customer_id = '5541'");
    t.equal((await read({ email })).purchases.length, 1);
    await erase({ email });
    const redact = {
      shop_id: 1,
      shop_domain: 'x.example',
      customer: { id: 5541 },
      orders_to_redact: [],
    };
    t.equal((await app.post('/webhook/customers/redact', redact, TRUSTED)).status, 200);
    await until('both are gone', async () => {
      await eraseWaiting(await spec(), 0);
      return (await rows("customer_id IN ('5540', '5541') OR session_id = 'mailed'")) === 0;
    });
  });

  t.test('a dead letter that names an erased identity goes', async (t) => {
    const dead = keys.eventsDead(0);
    const letter = (more: object) =>
      connection.xadd(
        dead,
        '*',
        ...['code', '1', 'reason', '', 'time', '0', 'line'],
        JSON.stringify({
          event_id: 'x',
          occurred_at: 1,
          profile_id: '1a.sother',
          ...more,
        }),
      );
    await letter({ customer_id: '5550' });
    await letter({ session_id: 'in-a-dead-letter' });
    await letter({ customer_id: '5551' });
    await event({ customerId: '5550', sessionId: 'in-a-dead-letter' });
    await erase({ customerId: '5550' });
    await untilErased();
    t.match(JSON.stringify(await connection.xrange(dead, '-', '+')), '5551');
    t.equal(await connection.xlen(dead), 1);
  });

  t.test('what waits in a stream and names an erased identity does not reach ClickHouse', async (t) => {
    await flushing.close();
    await order('5560');
    await event({ sessionId: 'waits' });
    await event({ customerId: '5560', sessionId: 'waits' });
    await erase({ customerId: '5560' });
    await event({ customerId: 'after' });
    const again = await flush(
      readConfig({
        ...env,
        REDIS_URL: redis.urls.join(','),
        KEY_PREFIX: app.prefix,
        EVENT_SHARDS: '1',
      }),
      log,
    );
    await stored(1, "customer_id = 'after'");
    await again.close();
    t.equal(await rows("customer_id = '5560' OR session_id = 'waits'"), 0);
  });
});
