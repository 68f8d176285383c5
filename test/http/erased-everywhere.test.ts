// Exports and erasures through ClickHouse. An export has all that is known of a visitor, at any size and pace; after the erasure
// nothing on disk names the visitor, not even rows of another profile.

import { readdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { flush } from '../../src/app/flush.js';
import { VISITOR_TABLES } from '../../src/clickhouse/erase.js';
import { readConfig } from '../../src/config.js';
import { FLUSH_EXTRAS } from '../../src/extras/flush-extras.js';
import { openHandOver } from '../../src/extras/receivers/hand-over.js';
import { receiverKeys } from '../../src/extras/receivers/keys.js';
import { RowEraser } from '../../src/flush/row-eraser.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { eraseAsFlusher } from '../flush/fixtures.js';
import { SHOP_DOMAIN, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { BROWSER, SHOPPERS } from '../harness/app-proxy.js';
import { connectToClickHouse, select } from '../harness/clickhouse.js';
import { keyPattern } from '../harness/key-pattern.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';
import { startStores } from '../harness/stores.js';
import { until } from '../harness/until.js';
import { sessionNote } from './orders.js';

/** Files under a folder that contain one of the texts. A file that disappears during the search is skipped. */
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

const MiB = 1024 * 1024;
const EXPORTS = 'exports';
const EVENTS = 4_000;
const PAYLOAD = 16_000;

const { redis, clickhouse, env: stores } = await startStores(t, ['wishmeter', EXPORTS]);
const startExporting = (t: Test) =>
  startApp(t, redis, { env: { CLICKHOUSE_URL: clickhouse.url, CLICKHOUSE_DATABASE: EXPORTS } });
const exporting = connectToClickHouse(t, clickhouse.url, EXPORTS);

t.test('erasures through ClickHouse', async (t) => {
  const env = { ...stores, ...SHOPPERS, SHOP_DOMAIN, ERASURE_INTERVAL_S: '3600', RECEIVERS_PRIVATE: 'allow' };
  const app = await startApp(t, redis, { env });
  const log = pino({ level: 'silent' });
  const startFlush = () => flush(readConfig({ ...env, KEY_PREFIX: app.prefix }), log);
  const flushing = await startFlush();
  t.teardown(() => flushing.close());
  const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  const connection = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
  t.teardown(() => connection.disconnect());
  const keys = createKeys(app.prefix);

  const { add, erase, exported: read, visit } = app.shop;
  const statusOf = async (who: Readonly<Record<string, string>>) =>
    (await app.get(withQuery('/profile', who), TRUSTED)).status;
  const event = (identity: object) => app.shop.event(identity, 'add', { productId: '1' });
  let orders = 0;
  const order = (customerId?: string, sessionId?: string) => {
    const customer = customerId === undefined ? null : { id: customerId };
    const note_attributes = sessionId === undefined ? [] : sessionNote(sessionId);
    const rest = { currency: 'EUR', line_items: [{ product_id: 1, price: '1' }] };
    const body = { id: `order-${++orders}`, customer, note_attributes, ...rest };
    return app.post('/webhook/purchase', body, TRUSTED);
  };
  const count = async (where: string, params: Record<string, string> = {}, table = 'events_stored') => {
    const [row] = await select(client, `SELECT count() AS n FROM ${table} WHERE ${where}`, params);
    return Number(row?.['n']);
  };
  const visits = () => count('1', {}, 'visits_stored');
  const ofCustomer = (id: string) => count('customer_id = {id: String}', { id });
  const ofSession = (id: string) => count('session_id = {id: String}', { id });
  /** Waits until every earlier event is in ClickHouse: there is one stream of events. */
  let markers = 0;
  const stored = async () => {
    const marker = `marker-${++markers}`;
    await event({ customerId: marker });
    await until(`${marker} is in ClickHouse`, async () => (await ofCustomer(marker)) === 1);
  };
  const untilErased = () =>
    until('nothing is left to erase', async () => {
      await eraseAsFlusher(connection, keys, client);
      return (await app.figure('pending_erasures')) === 0;
    });

  t.test(
    'a server whose clock is a day off, in either direction, erases all rows of a visitor',
    async (t) => {
      const visitors = [-1, 1].flatMap((days): [number, Record<string, string>][] => [
        [days, { customerId: `clock ${days}` }],
        [days, { sessionId: `clock ${days}` }],
      ]);
      for (const [, who] of visitors) {
        await event(who);
        await visit(who);
      }
      await stored();
      await until('the visits are in ClickHouse', async () => (await visits()) === visitors.length);
      const { now } = Date;
      t.teardown(() => {
        Date.now = now;
      });
      for (const [days, who] of visitors) {
        Date.now = () => now() + days * 86_400_000;
        await erase(who);
      }
      Date.now = now;
      await untilErased();
      for (const [, id] of visitors.flatMap(([, who]) => Object.entries(who)))
        t.same([await ofCustomer(id), await ofSession(id)], [0, 0], id);
      t.equal(await visits(), 0);
    },
  );

  t.test('an erasure takes the rows of its profile, and the orders that name its customer', async (t) => {
    const LONG = 'x'.repeat(200);
    const spellings = [
      ['ids in clear', '5501', 'by-name-1'],
      ['long ids, which Redis holds hashed', `c${LONG}`, `s${LONG}`],
      ["ids with SQL's own characters", "5503' OR 1=1 --\\", "by-name-3\\', 'x"],
    ] as const;
    await event({ customerId: 'bystander' });
    for (const [, customerId, sessionId] of spellings) {
      await event({ sessionId });
      await order(customerId, sessionId);
      const device = `${sessionId}2`;
      await event({ customerId: `1${customerId}`, sessionId: device });
      await event({ customerId: `1${customerId}` });
      await event({ customerId: `2${customerId}`, sessionId: device });
    }
    await order(undefined, 'of-order');
    await event({ customerId: '5510' });
    await event({ customerId: '5510', sessionId: 'of-order' });
    await event({ customerId: '5520', sessionId: 'moves' });
    await event({ customerId: '5521', sessionId: 'moves' });
    await order('5530');
    await stored();

    for (const [how, customerId, sessionId] of spellings) {
      const isExported = async () => (await read({ customerId })).purchases.length === 1;
      await until(`in the export: ${how}`, isExported);
      t.equal((await read({ customerId: `2${customerId}` })).events.length, 1, `in the export: ${how}`);
      t.same(await erase({ customerId }), { erased: true });
      t.same(await erase({ sessionId: `${sessionId}2` }), { erased: true });
      t.equal(await statusOf({ customerId }), 404, how);
    }
    t.equal((await read({ customerId: '5510' })).purchases.length, 1);
    const moved = await read({ customerId: '5520' });
    t.same([moved.identities.sessionIds, moved.events.length], [[], 1]);
    for (const customerId of ['5510', '5520', '5530']) t.same(await erase({ customerId }), { erased: true });
    await sleep(5); // rows of the erasure's own millisecond count as erased
    await event({ customerId: '5530' });
    await stored();
    t.match(await read({ customerId: '5530' }), { events: { length: 1 }, purchases: { length: 0 } });
    await untilErased();

    for (const [how, customerId, sessionId] of spellings) {
      t.equal(await ofCustomer(customerId), 0, how);
      t.equal(await ofSession(sessionId), 1, "the guest's other rows stay");
      t.equal(await ofCustomer(`2${customerId}`), 0, how);
      t.equal(await ofSession(`${sessionId}2`), 1, "the first customer's row of the same device stays");
      t.equal(await ofCustomer(`1${customerId}`), 2, "the first customer's rows stay");
    }
    t.equal(await ofCustomer('bystander'), 1, "another visitor's rows stay");
    t.equal(await ofSession('of-order'), 0);
    t.equal(await ofCustomer('5530'), 1, 'what comes after the erasure is a new visitor’s');
    t.equal((await read({ customerId: '5530' })).events.length, 1);
    const derived = 'event NOT IN (SELECT sipHash64(event_id) FROM events_stored)';
    t.equal(await count(derived, {}, 'steps_stored'), 0, 'also what analysts query of them');
    t.equal(await ofSession('moves'), 1, 'the row of the customer to whom the session has moved');
    t.same((await read({ customerId: '5521' })).identities.sessionIds, ['moves']);
  });

  const [CUSTOMER, OTHER] = ['93517046001', '93517046002'] as const;
  const EMAIL = 'erased-everywhere@rights.example';
  const profiles = new Set<string>();

  t.test('an export has the rows of the present and of all earlier profiles', async (t) => {
    for (const sessionId of ['of-93517046001-a', 'of-93517046001-b']) {
      const guest = { sessionId, email: EMAIL, firstName: 'Erased-Everywhere' };
      profiles.add((await visit(guest)).profileId);
      await add(guest);
      profiles.add((await visit({ sessionId, customerId: CUSTOMER })).profileId);
    }
    const identity = { customerId: CUSTOMER };
    const keyed = { ...TRUSTED, 'idempotency-key': 'of-93517046001' };
    await app.post('/event', { identity, type: 'share' }, keyed);
    await app.shop.share(identity);
    const bought = { id: 5, currency: 'EUR', customer: { id: CUSTOMER, email: EMAIL } };
    await app.post('/webhook/purchase', { ...bought, line_items: [{ product_id: 1, price: '1' }] }, TRUSTED);
    await visit({ customerId: OTHER });
    for (const { name } of VISITOR_TABLES)
      await client.command({
        query: `ALTER TABLE ${name} MODIFY SETTING old_parts_lifetime = 1, merge_tree_clear_old_parts_interval_seconds = 1`,
      });
    await until('all is in ClickHouse', async () => {
      const { visitLog, events, purchases } = await read({ customerId: CUSTOMER });
      return visitLog?.length === 4 && events.length === 4 && purchases.length === 1;
    });
    const found = await read({ email: EMAIL });
    const money = { price: '1.00', discount: '0.00', amount: '1.00' };
    t.match(found, { identities: { customerIds: [CUSTOMER] }, purchases: [{ order_id: '5', ...money }] });
    const prices = found.events.map(({ price }: { price: unknown }) => price).sort();
    t.same(prices, [ITEM.price, ITEM.price, null, null], 'money is text, as in items');
    t.same(found.events.map(({ type }: { type: string }) => type).sort(), ['add', 'add', 'share', 'share']);
    const ofVisits = new Set(found.visitLog.map(({ profile_id }: { profile_id: string }) => profile_id));
    t.ok(ofVisits.size > 1, 'also of before the merges');
    const { paths } = (await app.get('/openapi.json')).json;
    const { schema } = paths['/profile'].get.responses['200'].content['application/json'];
    const documented = (key: string) => Object.keys(schema.properties[key].items.properties);
    for (const [view, key] of [
      ['events', 'events'],
      ['visits', 'visitLog'],
      ['purchases', 'purchases'],
    ] as const) {
      const rows = found[key];
      const columns = await select(client, `DESCRIBE TABLE ${view}`);
      const names = columns.map(({ name }) => name);
      t.same(Object.keys(rows[0]), names, `the columns of ${view}`);
      t.same(documented(key), names, `the fields of ${key} in /openapi.json`);
    }
    t.match(found.visitLog[0], { product_handle: 'red-shoe', occurred_at: /^\d{4}-\d\d-\d\dT.*Z$/ });
  });

  t.test(
    'after an erasure the export is 404 at once, and later no file of Redis or ClickHouse names the visitor',
    async (t) => {
      await until("the other visitor's row is in ClickHouse", async () => (await visits()) === 5);
      t.same(await erase({ email: EMAIL }), { erased: true });
      t.equal(await visits(), 5);
      t.equal(await statusOf({ customerId: CUSTOMER }), 404);
      await untilErased();
      t.equal(await visits(), 1, "another visitor's row stays");

      const hashes = [...profiles].map((profileId) => profileId.slice(profileId.indexOf('.') + 1));
      const texts = [CUSTOMER, EMAIL, 'Erased-Everywhere', ...hashes];
      t.ok(hashes.length > 1);
      // Answers of batches expire after a minute, keyed requests after a day, times of erasures after 400 days: too late for a test.
      for (const key of await app.keys()) {
        const isTime = keyPattern(keys.erasedAt('*.*')).test(key);
        if (!isTime && !/:channel:|\{k:/.test(key)) continue;
        const seconds = await connection.ttl(key);
        t.ok(seconds > 0 && seconds <= (isTime ? 400 : 1) * 86_400, `${key} ends`);
        if (key.includes('{k:'))
          t.notMatch(await connection.get(key), new RegExp(texts.slice(0, 3).join('|')));
        await connection.del(key);
      }
      const held = `${await app.keys()} ${JSON.stringify(await app.dump())}`;
      const inRedis = texts.filter((text) => held.includes(text));
      t.same(inRedis, [], 'Redis');
      await connection.bgrewriteaof();
      await until("Redis's file is written anew", async () => {
        const info = await connection.info('persistence');
        return /aof_rewrite_in_progress:0/.test(info) && /aof_rewrite_scheduled:0/.test(info);
      });
      let left: string[] = [];
      await until('the old file is gone', async () => {
        left = await filesWith(redis.dir, texts);
        return left.length === 0;
      }).catch(() => t.same(left, [], "Redis's files"));
      await until('ClickHouse has nothing but parts that were replaced', async () => {
        // ClickHouse removes replaced parts whenever it has time: no test waits for that.
        const parts = await select<{ path: string }>(
          client,
          'SELECT path FROM system.parts WHERE NOT active',
        );
        const replaced = parts.map(({ path }) => path.slice(path.indexOf('store/')));
        const found = await filesWith(clickhouse.dir, texts);
        left = found.filter((file) => !replaced.some((path) => file.includes(path)));
        return left.length === 0;
      }).catch(() => {});
      t.same(left, [], "ClickHouse's files");
    },
  );

  t.test(
    'a request with a publishable key renames and reprices no product that a server has described',
    async (t) => {
      const add = async (headers: Record<string, string>, sessionId: string, changes: object) => {
        const body = { identity: { sessionId }, ...ITEM, variantId: '1', currencyCode: 'EUR', ...changes };
        const answer = await app.post('/item/add', body, headers);
        t.equal(answer.status, 200, answer.text);
      };
      const red = { productTitle: 'Red shoe', productHandle: 'red-shoe' };
      const right = { ...red, price: '79.90', inventoryAvailable: false };
      const wrong = { productTitle: 'Evil', productHandle: 'evil', price: '0.01', inventoryAvailable: true };
      await add(TRUSTED, 'server', { productId: 'p1', ...right });
      await add(BROWSER, 'b-1', { productId: 'p1', ...wrong });
      await add(BROWSER, 'b-2', { productId: 'p2', ...wrong });
      const payload = { productId: 'p1', variantId: '1', ...wrong };
      const event = { identity: { sessionId: 'b-3' }, type: 'add', payload };
      t.equal((await app.post('/event', event, BROWSER)).status, 200);
      await app.shop.remove({ sessionId: 'b-1' }, { productId: 'p1', variantId: '1' });
      await add(TRUSTED, 'server', { productId: 'p3', ...right });
      const last = "SELECT product_id FROM products WHERE product_id = 'p3'";
      await until('the last one is there', async () => (await select(client, last)).length === 1);
      const shown = (view: string) =>
        select(client, `SELECT * FROM ${view} WHERE product_id IN ('p1', 'p2') ORDER BY product_id`);
      t.same(await shown('products'), [
        { product_id: 'p1', product_handle: 'red-shoe', product_title: 'Red shoe', image: '' },
        { product_id: 'p2', product_handle: 'evil', product_title: 'Evil', image: '' },
      ]);
      t.match(await shown('product_variants'), [
        { product_id: 'p1', price_now: 79.9, in_stock: false },
        { product_id: 'p2', price_now: 0.01, in_stock: true },
      ]);
      await add(TRUSTED, 'server', { productId: 'p2', ...right });
      await until('the server is believed', async () => {
        const [row] = await select(client, "SELECT product_title FROM products WHERE product_id = 'p2'");
        return row?.['product_title'] === 'Red shoe';
      });
    },
  );

  t.test(
    'share_opens shows each opening of a link once, no export has them, and an erasure removes them',
    async (t) => {
      const [owner, other] = [{ sessionId: 'owner' }, { sessionId: 'other' }];
      const person = {
        'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
      };
      const codes: string[] = [];
      for (const who of [owner, other]) {
        await app.shop.add(who);
        const { code } = await app.shop.share(who);
        codes.push(code);
        for (let n = 0; n < 2; n++) await app.get(`/wishlist/share/${code}`, person);
      }
      const opens = () => select(client, 'SELECT * FROM share_opens ORDER BY occurred_at');
      const opened = async () => (await opens()).map(({ share_code }) => share_code);
      await until('four are in ClickHouse', async () => (await opens()).length === 4);
      t.same(await opened(), [codes[0], codes[0], codes[1], codes[1]]);
      t.same(Object.keys((await opens())[0] ?? {}), ['occurred_at', 'share_code']);
      const { events } = await app.shop.exported(owner);
      t.match(events, [{ type: 'add' }, { type: 'share' }]);
      t.equal(events.length, 2);
      await app.shop.erase(owner);
      await untilErased();
      t.same(await opened(), [codes[1], codes[1]]);
    },
  );

  t.test('an event that waits in a stream does not reach ClickHouse if its visitor is erased', async (t) => {
    await flushing.close();
    await order('5560');
    await event({ sessionId: 'waits' });
    await event({ customerId: '5560', sessionId: 'waits' });
    await erase({ customerId: '5560' });
    const again = await startFlush();
    await stored();
    await again.close();
    t.equal(await ofCustomer('5560'), 0);
    t.equal(await ofSession('waits'), 0);
  });

  for (const [n, [erased, kept]] of (
    [
      ['first', 'next'],
      ['next', 'first'],
    ] as const
  ).entries())
    t.test(`erasing the ${erased} customer of a shared device leaves the ${kept} one's rows`, async (t) => {
      const sessionId = `device-${erased}`;
      const customers = { first: { customerId: `935170470${n}1` }, next: { customerId: `935170470${n}2` } };
      const url = 'http://127.0.0.1:9/';
      const { id: receiver } = (await app.post('/receivers', { url, types: ['*'] }, TRUSTED)).json;
      const extras = FLUSH_EXTRAS;
      const startFlush = () => flush(readConfig({ ...env, KEY_PREFIX: app.prefix }), log, { extras });
      const use = async (customer: { customerId: string }, productId: string) => {
        const who = { ...customer, sessionId };
        await visit(who, `shoe-${productId}`);
        await add(who, { productId });
        await order(customer.customerId, sessionId);
        return app.shop.share(who);
      };
      let flusher = await startFlush();
      await visit({ sessionId });
      await add({ sessionId }, { productId: '77' });
      const shares = { first: await use(customers.first, '1'), next: { code: '' } };
      await order(customers.next.customerId, sessionId);
      shares.next = await use(customers.next, '2');
      await stored();
      await flusher.close();

      const before = { first: await read(customers.first), next: await read(customers.next) };
      t.match(before.first, { items: { length: 2 }, visits: { 'red-shoe': 1, 'shoe-1': 1 } });
      t.match(before.next, { items: { length: 1 }, visits: { 'shoe-2': 1 } });
      const sizes = ({ events, visitLog, purchases }: Record<string, unknown[]>) =>
        [events, visitLog, purchases].map((rows) => rows?.length);
      t.same(sizes(before.first), [3, 2, 1]);
      t.same(sizes(before.next), [2, 1, 2]);
      for (const [who, other] of [
        ['first', 'next'],
        ['next', 'first'],
      ] as const) {
        const text = JSON.stringify(before[who]);
        const others = [customers[other].customerId, before[other].profileId, shares[other].code];
        t.same(
          others.filter((one) => text.includes(one)),
          [],
          `the ${who} one's export`,
        );
      }

      // Each customer has rows in the stream, and copies of them as dead letters.
      for (const customer of [customers.first, customers.next]) {
        await event({ ...customer, sessionId });
        await order(customer.customerId, sessionId);
      }
      for (const row of await app.rows())
        await connection.xadd(keys.eventsDead(0), '*', 'code', '1', 'line', JSON.stringify(row));
      t.same(await erase(customers[erased]), { erased: true });
      const ofRedis = ({ profile, items, visits, shares }: object & Record<string, unknown>) => ({
        ...{ profile, items, visits, shares },
      });
      t.same(ofRedis(await read(customers[kept])), ofRedis(before[kept]));
      const gone = [customers[erased].customerId, before[erased].profileId, shares[erased].code];
      t.same(await app.traces(...gone), []);
      flusher = await startFlush();
      await stored();
      await flusher.close();
      const { erase: eraseInExtras } = openHandOver(connection, keys, 1_000_000, log);
      const spec = { redis: connection, keys, clickhouse: client, inFlightMs: 0, lateMs: 0 };
      const eraser = new RowEraser({ ...spec, eraseInExtras });
      await until('nothing is left to erase', async () => {
        await eraser.run();
        return (await app.figure('pending_erasures')) === 0;
      });
      const own = [customers[kept].customerId, before[kept].profileId];
      const waiting = await connection.xrange(receiverKeys(keys).deliveries(receiver).queue, '-', '+');
      const letters = await connection.xrange(keys.eventsDead(0), '-', '+');
      const held = { deliveries: JSON.stringify(waiting), 'dead letters': JSON.stringify(letters) };
      for (const [where, text] of Object.entries(held)) {
        t.same(
          gone.filter((one) => text.includes(one)),
          [],
          where,
        );
        t.same(
          own.filter((one) => !text.includes(one)),
          [],
          where,
        );
      }
      t.equal(await ofCustomer(customers[erased].customerId), 0);
      t.equal(await count('profile_id = {id: String}', { id: before[erased].profileId }), 0);
      const after = await read(customers[kept]);
      const [events = 0, visitLog, purchases = 0] = sizes(before[kept]);
      t.same(sizes(after), [events + 1, visitLog, purchases + 1]);
      await connection.del(keys.eventsDead(0));
      await app.del(`/receivers/${receiver}`, undefined, TRUSTED);
    });
});

/** Events of the profiles that the SQL expression `profile` gives for each `number`. */
const addEvents = (profile: string, more: { rows?: number; bytes?: number } = {}) =>
  exporting.command({
    query: `INSERT INTO events_stored (event_id, type, occurred_at, profile_id, origin, payload)
      SELECT generateUUIDv7(number), 'add', now64(3), ${profile}, 'event',
        concat('{"text":"', repeat('x', ${more.bytes ?? 1}), '"}')
      FROM numbers(${more.rows ?? 1})`,
  });
const running = async () => {
  const processes = `SELECT query_id FROM system.processes
    WHERE query LIKE '%LIMIT 1 BY event_id%' AND query NOT LIKE '%system.processes%'`;
  return (await select(exporting, processes)).length;
};

/** The start of a row may span two chunks, with the size of the second in between. */
const rowsIn = (text: string) => text.replace(/\r\n[0-9a-f]+\r\n/g, '').split('{"event_id"').length;

async function read(t: Test, port: number, who: Readonly<Record<string, string>>) {
  const socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  const seen = { bytes: 0, rows: 0, end: '', head: '', isClosed: false };
  socket.on('data', (data) => {
    const text = seen.end + data.toString('latin1');
    if (seen.head === '') seen.head = text.slice(0, 200);
    seen.bytes += data.length;
    seen.rows += rowsIn(text) - rowsIn(seen.end);
    seen.end = text.slice(-64);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    seen.isClosed = true;
  });
  const headers = `host: x\r\nauthorization: ${TRUSTED.authorization}\r\n\r\n`;
  socket.write(`GET ${withQuery('/profile', who)} HTTP/1.1\r\n${headers}`);
  return { socket, seen };
}

t.test('an export of more rows than a process has memory for', async (t) => {
  const app = await startExporting(t);
  const who = { customerId: 'has-many' };
  const { profileId } = await app.shop.visit(who);
  await addEvents(`'${profileId}'`, { rows: EVENTS, bytes: PAYLOAD });

  await t.test(
    'a slow reader gets every row of a large export, and the process holds little of it',
    async (t) => {
      const before = process.memoryUsage().rss;
      let most = 0;
      const measuring = setInterval(() => {
        most = Math.max(most, process.memoryUsage().rss - before);
      }, 20);
      t.teardown(() => clearInterval(measuring));
      const { socket, seen } = await read(t, app.port, who);
      socket.pause();
      await until('it waits for its reader', async () => Number(await app.figure('http_pending_bytes')) > 0);
      socket.on('data', () => {
        socket.pause();
        setTimeout(() => socket.resume(), 1);
      });
      socket.resume();
      await until('the answer ends', () => seen.end.endsWith('\r\n0\r\n\r\n'), 60_000);
      t.match(seen.head, /^HTTP\/1\.1 200 OK/);
      t.equal(seen.rows, EVENTS);
      t.ok(seen.bytes > EVENTS * PAYLOAD);
      t.ok(most < (EVENTS * PAYLOAD) / 2, `${Math.round(most / MiB)} MiB more at most`);
      t.equal(await app.figure('http_pending_bytes'), 0);
    },
  );

  await t.test('an export whose reader leaves ends its query in ClickHouse', async (t) => {
    const { socket, seen } = await read(t, app.port, who);
    await until('it reads', () => seen.rows > 0);
    socket.pause();
    await until('ClickHouse waits', async () => (await running()) === 1);
    socket.destroy();
    await until('nothing runs', async () => (await running()) === 0);
    t.equal(await app.figure('http_pending_bytes'), 0);
  });

  await t.test('HEAD of a large export has no body, and leaves no query in ClickHouse', async (t) => {
    const answer = await app.send('HEAD', withQuery('/profile', who), undefined, TRUSTED);
    t.match(answer, { status: 200, text: '' });
    await until('nothing runs', async () => (await running()) === 0);
  });

  await t.test('an export is cut if ClickHouse goes away in the middle', async (t) => {
    const { port } = new URL(clickhouse.url);
    const proxy = await startProxy(t, `redis://127.0.0.1:${port}`);
    const url = new URL(clickhouse.url);
    url.port = String(proxy.port);
    const logged: string[] = [];
    const app2 = await startApp(t, redis, {
      prefix: app.prefix,
      env: { CLICKHOUSE_URL: url.href, CLICKHOUSE_DATABASE: EXPORTS },
      onError: (line) => logged.push(line),
    });
    const { socket, seen } = await read(t, app2.port, who);
    await until('it reads', () => seen.rows > 0);
    socket.pause();
    await sleep(100);
    proxy.dropAll();
    socket.resume();
    await until('it is cut', () => seen.isClosed);
    t.notOk(seen.end.endsWith('0\r\n\r\n'), 'what came is no whole answer');
    t.ok(seen.rows < EVENTS);
    t.match(logged, [/an answer was cut/]);
  });
});

t.test('an export has the rows of 4,500 merged sessions, more than one query takes', async (t) => {
  const app = await startExporting(t);
  const who = { customerId: 'merged' };
  const { profileId } = await app.shop.visit(who);
  const merged = 4_500;
  const id = (n: number | string) => `1.s${String(n).padStart(16, '0')}`;
  const members = createKeys(app.prefix).members(profileId);
  for (let from = 0; from < merged; from += 500) {
    const fields = Array.from({ length: 500 }, (_, n) => [
      id(from + n),
      `1.a known s:${from + n}\nmerged`,
    ]).flat();
    await connectTo(t, redis.url).hset(members, ...fields);
  }
  await addEvents(`concat('1.s', leftPad(toString(number), 16, '0'))`, { rows: merged });
  const { events, visits } = await app.shop.exported(who);
  t.equal(events.length, merged);
  t.equal(new Set(events.map((one: { event_id: string }) => one.event_id)).size, merged);
  t.same(visits, { 'red-shoe': 1 });
});

t.test('a visitor without data in Redis is exported if ClickHouse has rows, and else is 404', async (t) => {
  const app = await startExporting(t);
  const [known, nobody] = [{ customerId: 'of-a-row' }, { sessionId: 'of-none' }];
  const { json } = await app.get(withQuery('/product/visit', { ...known, productHandle: 'x' }), TRUSTED);
  await addEvents(`'${json.profileId}'`);
  t.equal((await app.get(withQuery('/profile', nobody), TRUSTED)).json.code, 'not_found');
  for (const who of [known, { ...known, ...nobody }] as Record<string, string>[]) {
    const found = await app.shop.exported(who);
    t.same(found.identities, { customerIds: ['of-a-row'], sessionIds: [] });
    t.equal(found.events.length, 1);
  }
  await app.shop.erase(known);
  t.equal((await app.get(withQuery('/profile', known), TRUSTED)).status, 404, 'erased, if not gone');
});
