// Merges over HTTP: of profiles far above what one may hold, while others go on; and with a stream that takes nothing.

import type { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { parseItem } from '../../src/wishlist/item.js';
import { type Answer, eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { monitorRedis } from '../harness/monitor.js';
import { connectTo, openRedis, startTestRedis } from '../harness/redis.js';
import { contentOf, storedItem } from '../harness/samples.js';
import { rowsOf } from '../harness/stream.js';
import { until } from '../harness/until.js';

const FULL = process.env['FAULTS'] === 'full';
/** A profile from before there were caps. */
const PRODUCTS = FULL ? 300_000 : 12_000;
const ITEMS = FULL ? 100_000 : 2_000;
const MAX_TRIES = 200;

const BOTH = { customerId: 'c', sessionId: 's' };

const merge = (app: TestApp) => app.post('/profile/merge', { identity: BOTH }, TRUSTED);

async function visit(app: TestApp, identity: object, productHandle = 'x'): Promise<string> {
  const answer = await app.post('/product/visit', { identity, productHandle }, TRUSTED);
  return answer.json.profileId;
}

async function count(app: TestApp, productHandle: string): Promise<number> {
  const query = { customerId: 'c', productHandle };
  return (await app.get(withQuery('/product/visit', query), TRUSTED)).json.count;
}

/** Sends again what is answered 503, as a client does. */
async function untilDone(send: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const answer = await send();
    if (answer.status !== 503) return answer;
  }
  throw new Error(`503 for ${MAX_TRIES} times`);
}

async function inPages(n: number, write: (from: number, to: number) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < n; i += 1_000) await write(i, Math.min(i + 1_000, n));
}

/** Fills a guest's profile, as an older version may have left it. */
async function fill(client: Redis, prefix: string, profileId: string): Promise<void> {
  const keys = createKeys(prefix);
  await inPages(PRODUCTS, (from, to) => {
    const fields = Array.from({ length: to - from }, (_, i) => [`product-${from + i}`, 2]).flat();
    return client.hset(keys.door(profileId), ...fields);
  });
  await inPages(ITEMS, (from, to) => {
    const fields = Array.from({ length: to - from }, (_, i) => {
      const content = contentOf(String(from + i));
      return [`${from + i}:`, storedItem(`item-${from + i}`, content, '2026-01-01T00:00:00.000Z')];
    }).flat();
    return client.hset(keys.items(profileId), ...fields);
  });
}

t.test('a profile far above the caps is merged in pieces, and others go on meanwhile', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const app = await startApp(t, redis, { timeoutMs: 2_000 });
  const others = await startApp(t, redis, { prefix: app.prefix });
  await visit(app, { customerId: 'c' }, 'product-7');
  const guest = await visit(app, { sessionId: 's' });
  await fill(client, app.prefix, guest);
  let longest = 0;
  let scripts = 0;
  const close = await monitorRedis(redis.url, (command) => {
    if (!/^eval/i.test(command[0] ?? '')) return;
    scripts++;
    longest = Math.max(longest, command.length);
  });
  t.teardown(close);

  let isMerging = true;
  const bystanders = async () => {
    const statuses = new Map<number, number>();
    for (let i = 0; isMerging; i++) {
      const body = { identity: { sessionId: `bystander-${i}` }, productHandle: 'x' };
      const { status } = await others.post('/product/visit', body);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    return statuses;
  };
  const watching = bystanders();
  const answer = await untilDone(() => merge(app)).finally(() => {
    isMerging = false;
  });
  t.equal(answer.status, 200);
  const statuses = await watching;
  t.same([...statuses.keys()], [200], 'each visit of the others was counted');
  t.ok((statuses.get(200) ?? 0) > 10, 'while the merge was under way');
  t.ok(scripts > PRODUCTS / 1_000, `${scripts} script calls`);
  t.ok(longest < 1_200, `no step takes more than a page: ${longest} arguments at most`);

  const room = createKeys(app.prefix).room(answer.json.profileId);
  t.equal(await client.hlen(room), PRODUCTS + 1);
  t.equal(await count(app, 'product-7'), 3);
  t.equal(await count(app, `product-${PRODUCTS - 1}`), 2);
  const list = await app.post('/item/list', { identity: { customerId: 'c' } }, TRUSTED);
  t.equal(new Set(list.json.items.map(({ itemId }: { itemId: string }) => itemId)).size, ITEMS);
  t.ok(parseItem((await client.hget(createKeys(app.prefix).items(answer.json.profileId), '1:')) as string));
});

eachRedis(t, async (t, redis) => {
  t.test(
    'a stream that takes nothing more locks no visitor out: merges, visits and reads go on',
    async (t: Test) => {
      const full = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1' } });
      await visit(full, { customerId: 'c' });
      await visit(full, { sessionId: 's' });
      t.match(await merge(full), { status: 200, json: { merged: true } });
      for (const identity of [{ customerId: 'c' }, { sessionId: 's' }, BOTH]) {
        const before = await count(full, 'x');
        await visit(full, identity);
        t.equal(await count(full, 'x'), before + 1);
        t.match(await full.post('/item/list', { identity }, TRUSTED), { status: 200 });
      }
      t.match(await full.del('/product/visit', { identity: { sessionId: 's' }, productHandle: 'x' }), {
        status: 200,
      });
      t.equal(await count(full, 'x'), 0);
      t.equal((await rowsOf(redis, full)).length, 0);

      // When there is room again, the next start tells analysts of the merge, or, on a cluster, the next change of
      // the profile.
      await agePending(redis, full.prefix);
      const roomy = await startApp(t, redis, { prefix: full.prefix });
      const event = {
        identity: BOTH,
        productId: '1',
        productTitle: 't',
        productHandle: 'h',
        image: 'https://i.example/',
      };
      const rest = { price: '1.00', compareAt: null, inventoryAvailable: true, quantity: 1 };
      t.match(await roomy.post('/item/add', { ...event, ...rest }, TRUSTED), { status: 200 });
      // The audit of the start and the change may bring it to the stream at once: under one id, it is one row.
      const rows = await until('both are told', async () => {
        const found = await rowsOf(redis, roomy);
        const byId = new Map(found.map((row) => [row['event_id'], row]));
        return byId.size > 1 && [...byId.values()];
      });
      t.same(rows.map(({ origin }) => origin).sort(), ['item', 'merge']);
    },
  );

  t.test('a merge whose process ended before analysts were told: the next start tells them', async (t) => {
    const full = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1' } });
    await visit(full, { customerId: 'c' });
    await visit(full, { sessionId: 's' });
    const { json } = await merge(full);
    await full.close();
    const next = await startApp(t, redis, { prefix: full.prefix });
    const rows = await until('the merge is told', async () => {
      const found = await rowsOf(redis, next);
      return found.length > 0 && found;
    });
    t.match(rows, [{ origin: 'merge', payload: JSON.stringify({ into: json.profileId }) }]);
  });
});

async function agePending(redis: { urls: readonly string[] }, prefix: string): Promise<void> {
  const outboxes = Object.keys(await dumpRedis(redis, prefix)).filter((key) => key.includes(':o:'));
  for (const url of redis.urls) {
    const client = openRedis(url);
    for (const key of outboxes) {
      const entries = await client.hgetall(key).catch(() => ({}));
      for (const [id, entry] of Object.entries(entries)) {
        await client.hset(
          key,
          id,
          entry.replace(/^\d+/, (since) => String(Number(since) - 61_000)),
        );
      }
    }
    client.disconnect();
  }
}
