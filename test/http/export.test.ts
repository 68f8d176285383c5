// GET /profile of a visitor with any number of rows: all of them come, whatever the reader's pace, and neither rows nor readers
// cost more memory than a part of the answer; half an export is never a whole answer; nobody is 404.

import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

const MiB = 1024 * 1024;
const EVENTS = 12_000;
const PAYLOAD = 16_000;

const redis = await startTestRedis(t);
const clickhouse = await startTestClickHouse(t, { databases: ['wishmeter'] });
const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
const start = (t: Test, url = clickhouse.url, onError?: (line: string) => void) =>
  startApp(t, redis, { env: { CLICKHOUSE_URL: url }, ...(onError && { onError }) });

/** Events of a profile, or of profiles that `profile` makes of `number`. */
const addEvents = (profile: string, more: { customer?: string; rows?: number; bytes?: number } = {}) =>
  client.command({
    query: `INSERT INTO events_stored (event_id, type, occurred_at, profile_id, customer_id, origin, payload)
      SELECT generateUUIDv7(number), 'add', now64(3), ${profile}, ${more.customer ?? 'NULL'}, 'event',
        concat('{"text":"', repeat('x', ${more.bytes ?? 1}), '"}')
      FROM numbers(${more.rows ?? 1})`,
  });
const running = async () => {
  const answer = await client.query({
    query: `SELECT toUInt32(count()) AS n FROM system.processes
      WHERE query LIKE '%LIMIT 1 BY event_id%' AND query NOT LIKE '%system.processes%'`,
    format: 'JSONEachRow',
  });
  return (await answer.json<{ n: number }>())[0]?.n;
};

/** A reader that keeps nothing of what it reads. */
async function read(t: Test, port: number, who: Readonly<Record<string, string>>) {
  const socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  const seen = { bytes: 0, rows: 0, end: '', head: '', isClosed: false };
  socket.on('data', (data) => {
    const text = seen.end + data.toString('latin1');
    if (seen.head === '') seen.head = text.slice(0, 200);
    seen.bytes += data.length;
    seen.rows += text.split('{"event_id"').length - seen.end.split('{"event_id"').length;
    seen.end = text.slice(-20);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    seen.isClosed = true;
  });
  socket.write(
    `GET ${withQuery('/profile', who)} HTTP/1.1\r\nhost: x\r\nauthorization: ${TRUSTED.authorization}\r\n\r\n`,
  );
  return { socket, seen };
}

t.test('more rows than a process has memory for', async (t) => {
  const app = await start(t);
  const who = { customerId: 'has-many' };
  const { profileId } = await app.shop.visit(who);
  await addEvents(`'${profileId}'`, { rows: EVENTS, bytes: PAYLOAD });

  await t.test('all are there for a slow reader, and little of them is held', async (t) => {
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
  });

  await t.test('a reader that leaves ends the query', async (t) => {
    const { socket, seen } = await read(t, app.port, who);
    await until('it reads', () => seen.rows > 0);
    socket.pause();
    await until('ClickHouse waits', async () => (await running()) === 1);
    socket.destroy();
    await until('nothing runs', async () => (await running()) === 0);
    t.equal(await app.figure('http_pending_bytes'), 0);
  });

  await t.test('HEAD has no body, and leaves no query', async (t) => {
    const answer = await app.send('HEAD', withQuery('/profile', who), undefined, TRUSTED);
    t.match(answer, { status: 200, text: '' });
    await until('nothing runs', async () => (await running()) === 0);
  });

  await t.test('where ClickHouse goes away in the middle the connection is cut', async (t) => {
    const { port } = new URL(clickhouse.url);
    const proxy = await startProxy(t, `redis://127.0.0.1:${port}`);
    const url = new URL(clickhouse.url);
    url.port = String(proxy.port);
    const logged: string[] = [];
    const app2 = await startApp(t, redis, {
      prefix: app.prefix,
      env: { CLICKHOUSE_URL: url.href },
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

t.test('a visitor of more profiles and names than a query takes', async (t) => {
  const app = await start(t);
  const who = { customerId: 'merged' };
  const { profileId } = await app.shop.visit(who);
  const merged = 4_500;
  const id = (n: number | string) => `1.s${String(n).padStart(30, '0')}`;
  const members = createKeys(app.prefix).members(profileId);
  for (let from = 0; from < merged; from += 500) {
    const fields = Array.from({ length: 500 }, (_, n) => [id(from + n), 'nonce']).flat();
    await connectTo(t, redis.url).hset(members, ...fields);
  }
  // Each names the customer, too: it is told once.
  await addEvents(`concat('1.s', leftPad(toString(number), 30, '0'))`, {
    customer: "'merged'",
    rows: merged,
  });
  const { events, visits } = await app.shop.exported(who);
  t.equal(events.length, merged);
  t.equal(new Set(events.map((one: { event_id: string }) => one.event_id)).size, merged);
  t.same(visits, { 'red-shoe': 1 });
});

t.test('whom Redis does not know is known by a row, and only then', async (t) => {
  const app = await start(t);
  const [known, nobody] = [{ customerId: 'of-a-row' }, { sessionId: 'of-none' }];
  await addEvents(`'1.sSomebody'`, { customer: "'of-a-row'" });
  t.match(await app.get(withQuery('/profile', nobody), TRUSTED), {
    status: 404,
    json: { code: 'not_found' },
  });
  for (const who of [known, { ...known, ...nobody }] as Record<string, string>[]) {
    const found = await app.shop.exported(who);
    t.same(found.identities, { customerIds: ['of-a-row'], sessionIds: [] });
    t.equal(found.events.length, 1);
  }
  await app.shop.erase(known);
  t.equal(
    (await app.get(withQuery('/profile', known), TRUSTED)).status,
    404,
    'its row is erased, if not gone',
  );
});
