// A visitor from the first visit to the erasure, through ClickHouse: what an export tells of them, and that afterwards
// nothing on disk does. Redis's keys, values and append-only files, and every file of ClickHouse, are searched.

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { VISITOR_TABLES } from '../../src/clickhouse/erase.js';
import { readConfig } from '../../src/config.js';
import { visitStreams } from '../../src/flush/backlog.js';
import { eraseWaiting } from '../../src/flush/eraser.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { fixedShards } from '../flush/fixtures.js';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { allKeys, connectTo, dumpRedis } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { itemOf } from './wishlist.js';

const [CUSTOMER, OTHER, BACK] = ['93517046001', '93517046002', '93517046003'] as const;
const EMAIL = 'erased-everywhere@rights.example';

/** Files under a folder that have one of the texts. One that goes away meanwhile has none. */
async function filesWith(dir: string, texts: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(dir, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = await readFile(path).catch(() => Buffer.alloc(0));
    for (const text of texts) if (bytes.includes(text)) found.push(`${path}: ${text}`);
  }
  return found;
}

eachRedis(t, async (t, redis) => {
  const clickhouse = await startTestClickHouse({ databases: ['wishmeter'] });
  t.teardown(() => clickhouse.stop());
  const env = { CLICKHOUSE_URL: clickhouse.url, BUCKETS: '64', FLUSH_INTERVAL_MS: '50' };
  const app = await startApp(t, redis, { env });
  const log = pino({ level: 'silent' });
  const startFlush = () =>
    flush(
      readConfig({ ...env, REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix, EVENT_SHARDS: '1' }),
      log,
    );
  const client = createClickHouse(clickhouse.url, 'wishmeter');
  t.teardown(() => client.close());
  const rowsIn = async (table: string) => {
    const answer = await client.query({ query: `SELECT count() AS n FROM ${table}`, format: 'JSONEachRow' });
    return Number((await answer.json<{ n: string }>())[0]?.n);
  };
  const read = async (query: Record<string, string>) => app.get(withQuery('/profile', query), TRUSTED);

  const visit = (identity: object) =>
    app.post('/product/visit', { identity, productHandle: 'red-shoe' }, TRUSTED);
  const profiles = new Set<string>();
  for (const sessionId of ['of-93517046001-a', 'of-93517046001-b']) {
    const guest = { sessionId, email: EMAIL, firstName: 'Erased-Everywhere' };
    profiles.add((await visit(guest)).json.profileId);
    await app.post('/item/add', itemOf(guest), TRUSTED);
    profiles.add((await visit({ sessionId, customerId: CUSTOMER })).json.profileId);
  }
  const identity = { customerId: CUSTOMER };
  await app.post('/event', { identity, type: 'share' }, { ...TRUSTED, 'idempotency-key': 'of-93517046001' });
  await app.post('/share', { identity }, TRUSTED);
  const order = {
    id: 5,
    customer: { id: CUSTOMER, email: EMAIL },
    line_items: [{ product_id: 1, price: '1' }],
  };
  await app.post('/webhook/purchase', order, TRUSTED);
  await visit({ customerId: OTHER });

  t.test('an export has the rows of the present and of all earlier profiles', async (t) => {
    const flushing = await startFlush();
    for (const { name } of VISITOR_TABLES)
      await client.command({
        query: `ALTER TABLE ${name} MODIFY SETTING old_parts_lifetime = 1, merge_tree_clear_old_parts_interval_seconds = 1`,
      });
    await until('all is in ClickHouse', async () => {
      const { visitLog, events, purchases } = (await read({ customerId: CUSTOMER })).json;
      return visitLog?.length === 4 && events.length === 4 && purchases.length === 1;
    });
    const found = (await read({ email: EMAIL })).json;
    t.match(found, { identities: { customerIds: [CUSTOMER] }, purchases: [{ order_id: '5', price: 1 }] });
    t.same(found.events.map(({ type }: { type: string }) => type).sort(), ['add', 'add', 'share', 'share']);
    const ofVisits = new Set(found.visitLog.map(({ profile_id }: { profile_id: string }) => profile_id));
    t.ok(ofVisits.size > 1, 'also of before the merges');
    t.match(found.visitLog[0], { product_handle: 'red-shoe', occurred_at: /^\d{4}-\d\d-\d\dT.*Z$/ });
    await flushing.close();
  });

  t.test(
    'one who comes back: an export has what came since, though ClickHouse has the earlier rows yet',
    async (t) => {
      const flushing = await startFlush();
      const rows = await rowsIn('visits_stored');
      const identity = { customerId: BACK };
      const { profileId } = (await visit(identity)).json;
      await until('it is in ClickHouse', async () => (await rowsIn('visits_stored')) === rows + 1);
      t.equal((await read({ customerId: BACK })).json.visitLog.length, 1);
      t.same((await app.del('/profile', { identity }, TRUSTED)).json, { erased: true });
      await sleep(5); // what is of the erasure's own millisecond counts as erased
      t.equal((await visit(identity)).json.profileId, profileId);
      await until('it is in ClickHouse again', async () => (await rowsIn('visits_stored')) === rows + 2);
      t.equal((await read({ customerId: BACK })).json.visitLog.length, 1);
      await flushing.close();
    },
  );

  t.test('erased: not in an export, though ClickHouse has the rows yet; then nowhere', async (t) => {
    t.same((await app.del('/profile', { identity: { email: EMAIL } }, TRUSTED)).json, { erased: true });
    const after = (await read({ customerId: CUSTOMER })).json;
    t.match(after, { events: [], visitLog: [], purchases: [], items: [], visits: {} });

    const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
    t.teardown(() => connection.disconnect());
    const keys = createKeys(app.prefix);
    const spec = {
      redis: connection,
      keys,
      clickhouse: client,
      shards: fixedShards(1),
      visitStreams: await visitStreams(connection, keys),
      log,
    };
    const flushing = await startFlush();
    await until('it is erased from ClickHouse', async () => {
      await eraseWaiting(spec, 0);
      return (await connection.hlen(keys.erasures)) === 0;
    });
    await flushing.close();
    t.equal(await rowsIn('visits_stored'), 2, "another visitor's row stays, and that of one who came back");

    const hashes = [...profiles].map((profileId) => profileId.slice(profileId.indexOf('.') + 1));
    const texts = [CUSTOMER, EMAIL, 'Erased-Everywhere', ...hashes];
    t.ok(hashes.length > 1);
    // What a batch was answered is kept for a minute; nothing is sent any more, so the minute need not be waited for.
    await app.close();
    for (const key of await allKeys(redis, app.prefix))
      if (/:lane:|:unanswered$/.test(key)) await connection.del(key);
    const held = `${await allKeys(redis, app.prefix)} ${JSON.stringify(await dumpRedis(redis, app.prefix))}`;
    t.same(
      texts.filter((text) => held.includes(text)),
      [],
      'Redis',
    );
    for (const url of redis.urls) {
      const node = connectTo(url);
      t.teardown(() => node.disconnect());
      const [, dir = ''] = (await node.config('GET', 'dir')) as string[];
      await node.bgrewriteaof();
      await until('its file is written anew', async () => {
        const info = await node.info('persistence');
        return /aof_rewrite_in_progress:0/.test(info) && /aof_rewrite_scheduled:0/.test(info);
      });
      let left: string[] = [];
      await until('its old file is gone', async () => {
        left = await filesWith(dir, texts);
        return left.length === 0;
      }).catch(() => t.same(left, [], "Redis's files"));
    }
    let left: string[] = [];
    await until(
      'ClickHouse has nothing but parts that were replaced',
      async () => {
        // ClickHouse removes what a mutation has replaced when it has time; that is not ours to wait for.
        const answer = await client.query({
          query: 'SELECT path FROM system.parts WHERE NOT active',
          format: 'JSONEachRow',
        });
        const replaced = (await answer.json<{ path: string }>()).map(({ path }) =>
          path.slice(path.indexOf('store/')),
        );
        const found = await filesWith(clickhouse.dir, texts);
        left = found.filter((file) => !replaced.some((path) => file.includes(path)));
        return left.length === 0;
      },
      60_000,
    ).catch(() => {});
    t.same(left, [], "ClickHouse's files");
  });
});
