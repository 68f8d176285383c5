// Openings of shared wishlists: each that a person makes is one row, without that person; robots, prefetches and HEAD make
// none; a page is shown whether its opening can be recorded or not. The rows are analysts' share_opens, and are erased with the
// wishlist's owner.

import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { eraseAsFlusher } from '../flush/fixtures.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import { startStores } from '../harness/stores.js';
import { rowsOf } from '../harness/stream.js';
import { until } from '../harness/until.js';

const PERSON = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' };
const OWNER = { sessionId: 'owner' };

t.test('with Redis', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  await app.shop.add(OWNER);
  const { code } = await app.shop.share(OWNER);
  const page = `/wishlist/share/${code}`;
  const items = `/share/${code}/items`;
  const opens = async () => (await rowsOf(redis, app)).filter(({ type }) => type === 'shareOpen');
  let counted = 0;
  /** How many rows these requests make. */
  const made = async (...requests: (() => Promise<unknown>)[]) => {
    for (const request of requests) await request();
    const before = counted;
    counted = (await opens()).length;
    return counted - before;
  };

  t.test('each opening by a person is one row', async (t) => {
    t.equal(await made(() => app.get(page, PERSON)), 1, 'the page');
    t.equal(await made(() => app.get(page, PERSON)), 1, 'the page again');
    t.equal(await made(() => app.get(`/wishlist/share/${code.toUpperCase()}`, PERSON)), 1, 'in any case');
    t.equal(await made(() => app.get(proxied(page, { logged_in_customer_id: '' }), PERSON)), 1, 'in a theme');
    t.equal(await made(() => app.get(items, TRUSTED)), 1, 'the items, for a page of the shop');
    t.equal(await made(() => app.get(`/share/${code.toUpperCase()}/items`, TRUSTED)), 1, 'in any case');
    t.equal(await app.figure('events_total{type="shareOpen"}'), 6);
    for (const row of await opens()) {
      t.same(Object.keys(row).sort(), [
        'event_id',
        'occurred_at',
        'origin',
        'profile_id',
        'share_code',
        'type',
      ]);
      t.match(row, { origin: 'open', share_code: code });
    }
  });

  t.test('robots, prefetches, HEAD and unknown codes are none', async (t) => {
    for (const agent of [
      'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
      'WhatsApp/2.23.20.0',
      'facebookexternalhit/1.1',
      'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
    ])
      t.equal(await made(() => app.get(page, { 'user-agent': agent })), 0, agent);
    for (const [name, value] of [
      ['sec-purpose', 'prefetch;prerender'],
      ['purpose', 'prefetch'],
      ['x-moz', 'prefetch'],
    ] as const) {
      t.equal(await made(() => app.get(page, { ...PERSON, [name]: value })), 0, name);
      t.equal(await made(() => app.get(items, { ...TRUSTED, [name]: value })), 0, `${name}, the items`);
    }
    t.equal(await made(() => app.send('HEAD', page, undefined, PERSON)), 0, 'HEAD');
    t.equal(await made(() => app.send('HEAD', items, undefined, TRUSTED)), 0, 'HEAD of the items');
    t.equal(await made(() => app.get('/wishlist/share/aaaaaaaaaaaaaaaaaaa', PERSON)), 0, 'unknown');
  });

  t.test("where the page is the shop's own, its items are the opening", async (t) => {
    const env = { SHARE_PAGE_URL: 'https://shop.example/shared' };
    const other = await startApp(t, redis, { env, prefix: app.prefix });
    t.equal(
      await made(
        async () => t.equal((await other.get(page, PERSON)).status, 302),
        () => other.get(items, TRUSTED),
      ),
      1,
    );
  });

  t.test('a stream that is half full takes no opening; the page is shown, and events go on', async (t) => {
    const small = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '4000' } });
    await small.shop.add(OWNER);
    const { code } = await small.shop.share(OWNER);
    for (let n = 0; n < 20; n++) t.equal((await small.get(`/wishlist/share/${code}`, PERSON)).status, 200);
    const lost = (await small.figure('share_opens_not_recorded_total')) ?? 0;
    t.ok(lost > 0);
    const types = (await rowsOf(redis, small)).map(({ type }) => type);
    t.equal(types.filter((type) => type === 'shareOpen').length, 20 - lost);
    t.ok(await small.shop.event(OWNER, 'add', {}), 'an event');
  });
});

t.test(
  'share_opens has them once, the export and the events have none, and an erasure takes them',
  async (t) => {
    const { redis, clickhouse, env } = await startStores(t);
    const app = await startApp(t, redis, { env });
    const flushing = await flush(readConfig({ ...env, KEY_PREFIX: app.prefix }), pino({ level: 'silent' }));
    t.teardown(() => flushing.close());
    const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
    const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
    t.teardown(() => connection.disconnect());
    const opens = async () => {
      const query = 'SELECT * FROM share_opens ORDER BY occurred_at';
      const answer = await client.query({ query, format: 'JSONEachRow' });
      return await answer.json<{ share_code: string }>();
    };
    const others = { sessionId: 'other' };
    const codes: string[] = [];
    for (const who of [OWNER, others]) {
      await app.shop.add(who);
      const { code } = await app.shop.share(who);
      codes.push(code);
      for (let n = 0; n < 2; n++) await app.get(`/wishlist/share/${code}`, PERSON);
    }
    await until('four are in ClickHouse', async () => (await opens()).length === 4);
    t.same(
      (await opens()).map(({ share_code }) => share_code),
      [codes[0], codes[0], codes[1], codes[1]],
    );
    t.same(Object.keys((await opens())[0] ?? {}), ['occurred_at', 'share_code']);
    const { events } = await app.shop.exported(OWNER);
    t.same(
      (events as { type: string }[]).map(({ type }) => type),
      ['add', 'share'],
    );
    await app.shop.erase(OWNER);
    await until('nothing is left to erase', async () => {
      await eraseAsFlusher(connection, createKeys(app.prefix), client);
      return (await app.figure('pending_erasures')) === 0;
    });
    t.same(
      (await opens()).map(({ share_code }) => share_code),
      [codes[1], codes[1]],
    );
  },
);
