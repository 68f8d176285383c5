// An erased visitor leaves streams, dead letters and ClickHouse, later rows stay; also through kills (FAULTS=full: more of them).

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { pino } from 'pino';
import t from 'tap';
import { flush } from '../../src/app/flush.js';
import { VISITOR_TABLES } from '../../src/clickhouse/erase.js';
import { insertEvents, insertVisits } from '../../src/clickhouse/insert.js';
import { VisitorRowReader } from '../../src/clickhouse/visitor-rows.js';
import { readConfig } from '../../src/config.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeEvent, encodeMerge } from '../../src/events/row.js';
import { type EraserSpec, RowEraser } from '../../src/flush/row-eraser.js';
import { EVERY_PROFILE } from '../../src/identity-rules.js';
import { createKeys, type Keys } from '../../src/redis/keys.js';
import { loadScript, runScript } from '../../src/redis/scripts.js';
import { wishmeter } from '../cli/wishmeter.js';
import type { EraserProcessSpec } from '../faults/eraser-process.js';
import { FULL } from '../faults/service.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { JSON_TYPE } from '../http/orders.js';
import { appendLines, eraseAsFlusher, lineOf as eventLine, eventRow, until } from './fixtures.js';
import { openPipelines, type Pipeline } from './pipelines.js';

const ERASER = new URL('../faults/eraser-process.js', import.meta.url);
const ERASURES = loadScript('profiles/queueErasures');
const [GONE, STAYS] = ['1a.sAAAAAAAAAAAAAAAA', '1b.cBBBBBBBBBBBBBBBB'] as const;
const NO_NAMES = { device: null, locale: null, email: null, firstName: null, lastName: null };
const identity = { customerId: null, sessionId: 's', ...NO_NAMES };
const never = new AbortController().signal;
const log = pino({ level: 'silent' });
const ALL = VISITOR_TABLES.length;

const lineOf = (profileId: string, at: number) =>
  encodeEvent({ type: 'add', origin: 'event', profileId, identity, payload: {}, at });

const [HOUR_MS, DAY_MS] = [3_600_000, 86_400_000];

async function fill({ clickhouse }: Pipeline, before: number): Promise<void> {
  const times = [before, before + HOUR_MS, Date.now() + 2 * DAY_MS];
  const lines = [GONE, STAYS].flatMap((profile_id, n) => [
    ...times.map((at) =>
      eventLine(eventRow({ profile_id, product_id: '1', occurred_at: new Date(at).toISOString() })),
    ),
    encodeMerge(newEventId(before + n), before, profile_id, { into: '1c.cCCCCCCCCCCCCCCCC', isNew: false }),
  ]);
  await insertEvents(clickhouse, Buffer.from(lines.join('')), never);
  const visits = [GONE, STAYS].flatMap((id, n) =>
    times.map((at) => `${at / 1_000}\t0\t1\t${n}\t${id}\that\t\n`),
  );
  await insertVisits(clickhouse, Buffer.from(visits.join('')), never);
  const takenAt = new Date(before).toISOString().replace('T', ' ').replace('Z', '');
  const values = [GONE, STAYS].map((id) => ({ order_id: id, line: 1, taken_at: takenAt, profile_id: id }));
  await clickhouse.insert({ table: 'purchases_stored', values, format: 'JSONEachRow' });
}

async function rowsOf({ ask }: Pipeline, id: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { name, profile, isHash } of VISITOR_TABLES) {
    const is = isHash ? `sipHash64('${id}')` : `'${id}'`;
    const [row] = await ask<{ n: string }>(`SELECT count() AS n FROM ${name} WHERE ${profile} = ${is}`);
    counts[name] = Number(row?.n);
  }
  return counts;
}

const KILLS: readonly Pick<EraserProcessSpec, 'mutation' | 'when'>[] = [
  { mutation: 1, when: 'meanwhile' },
  { mutation: ALL, when: 'after' },
  { mutation: 1, when: 'before' },
  { mutation: 3, when: 'after' },
];
const SOME_KILLS = KILLS.slice(0, FULL ? KILLS.length : 1);

const pipelines = await openPipelines(t, await startTestRedis(t), SOME_KILLS.length + 2);
const { redis } = pipelines;

const addLetter = (dead: string, line: string) =>
  redis.xadd(dead, '*', 'code', '1', 'reason', '', 'time', '0', 'line', line);
const append = ({ keys }: Pipeline, ...lines: string[]) => appendLines(redis, keys, 0, lines);
const queue = (keys: Keys, ...args: (string | number)[]) =>
  runScript(redis, ERASURES, [keys.erasures], [Number.MAX_SAFE_INTEGER, ...args]);
const erase = ({ keys }: Pipeline, profileId: string, now = Date.now()) =>
  queue(keys, now, Math.max(Date.now() - now, 0), profileId);
const profilesOf = async ({ ask }: Pipeline) => {
  const query = 'SELECT profile_id FROM events_stored ORDER BY profile_id, occurred_at';
  return (await ask<{ profile_id: string }>(query)).map(({ profile_id }) => profile_id);
};
const eraserOf = ({ keys, clickhouse }: Pipeline, changes: Partial<EraserSpec> = {}) =>
  new RowEraser({ redis, keys, clickhouse, inFlightMs: 0, lateMs: 0, ...changes });
const run = ({ keys, clickhouse }: Pipeline) => eraseAsFlusher(redis, keys, clickhouse);
const untilErased = (pipeline: Pipeline) =>
  until('the erasure is due', async () => (await run(pipeline)) > 0);

t.test(
  'an erasure keeps waiting events out of ClickHouse, removes stored ones, and leaves later ones',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const before = Date.now();
    await append(pipeline, lineOf(GONE, before), lineOf(STAYS, before));
    await pipeline.flush();
    t.same(await profilesOf(pipeline), [GONE, STAYS]);

    await append(pipeline, lineOf(GONE, before + 1), lineOf(STAYS, before + 1));
    await erase(pipeline, GONE, before + 2);
    t.equal(await run(pipeline), 0, 'while an older entry waits it is not due');
    await append(pipeline, lineOf(GONE, before + 3));
    await pipeline.flush();
    t.equal((await profilesOf(pipeline)).length, 4, 'one of the two that waited was left out');

    await untilErased(pipeline);
    t.same(await profilesOf(pipeline), [GONE, STAYS, STAYS]);
    t.equal(await redis.exists(pipeline.keys.erasures), 0);
    t.equal(await run(pipeline), 0, 'again: nothing to do');
  },
);

t.test('an erasure in ClickHouse waits for older entries of the stream, and for no later ones', async (t) => {
  const pipeline = await pipelines.fresh();
  const stream = pipeline.keys.events(0);
  await append(pipeline, lineOf(STAYS, 1));
  await erase(pipeline, GONE);
  const eraser = eraserOf(pipeline);
  await eraser.run();
  await append(pipeline, lineOf(STAYS, 2));
  const [[first] = []] = await redis.xrange(stream, '-', '+');
  t.same(await eraser.run(), []);
  t.equal(await redis.xdel(stream, first as string), 1);
  await eraser.run();
  t.same(await eraser.run(), [GONE]);
});

t.test('an erasure in ClickHouse runs a second time, for late inserts, and is then forgotten', async (t) => {
  const pipeline = await pipelines.fresh();
  await erase(pipeline, GONE);
  const eraser = eraserOf(pipeline, { lateMs: 500 });
  await eraser.run();
  await insertEvents(pipeline.clickhouse, Buffer.from(lineOf(GONE, 1)), never);
  t.equal(await redis.hexists(pipeline.keys.erasures, GONE), 1);
  t.same(await until('it is executed again', async () => (await eraser.run())[0]), GONE);
  t.same(await profilesOf(pipeline), []);
  t.equal(await redis.exists(pipeline.keys.erasures), 0);
});

t.test(
  'an erasure removes rows dated by a clock two days ahead, flushed or not, and leaves later rows',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const { keys, ask } = pipeline;
    const ahead = Date.now() + 2 * DAY_MS;
    const addVisit = (profileId: string, at: number, id?: string) =>
      pipeline.appendVisits([`${profileId}\that\t\n`], id, at);
    const visitors = async () => {
      const rows = await ask<{ id: string }>('SELECT profile_id AS id FROM visits_stored ORDER BY id');
      return rows.map(({ id }) => id);
    };
    for (const [i, profileId] of [GONE, STAYS].entries()) {
      await append(pipeline, lineOf(profileId, ahead));
      await addVisit(profileId, ahead, `${ahead}-${i}`);
    }
    await pipeline.flush();
    t.same(await visitors(), [GONE, STAYS]);
    // The clock is right again, but the stream's ids continue from the later time.
    await redis.call('XSETID', keys.events(0), `${ahead}-5`);
    for (const profileId of [GONE, STAYS]) {
      await append(pipeline, lineOf(profileId, Date.now()), lineOf(profileId, ahead + 1));
      await addVisit(profileId, Date.now());
      await addVisit(profileId, ahead + 1);
    }
    await erase(pipeline, GONE);
    t.equal(await run(pipeline), 0, 'while entries wait it is not due, whatever their ids say');
    await new Promise((later) => setTimeout(later, 5));
    await append(pipeline, lineOf(GONE, Date.now()));
    await addVisit(GONE, Date.now());
    await pipeline.flush();
    t.same(await visitors(), [GONE, GONE, STAYS, STAYS, STAYS], 'what waited was left out');
    await untilErased(pipeline);
    t.same(await visitors(), [GONE, STAYS, STAYS, STAYS]);
    t.same(await profilesOf(pipeline), [GONE, STAYS, STAYS, STAYS]);
    t.equal(await redis.exists(keys.erasures), 0, 'only then it counts as done');
  },
);

t.test('an erasure that is queued again while it runs is done again', async (t) => {
  const pipeline = await pipelines.fresh();
  const until = () => redis.hget(pipeline.keys.erasures, GONE);
  await erase(pipeline, GONE, 5_000);
  await erase(pipeline, GONE, 3_000);
  // Redis's clock may differ by milliseconds.
  t.match(await until(), /^5000 5\d{3}$/, 'a late step of an earlier erasure sets neither time back');
  let runs = 0;
  const eraseInExtras = async () => {
    if (++runs === 2) await erase(pipeline, GONE, 7_000);
  };
  const eraser = eraserOf(pipeline, { eraseInExtras });
  for (let i = 0; i < 3; i++) await eraser.run();
  t.match(await until(), /^7000 /);
  t.same(await eraser.run(), [GONE]);
  t.equal(await until(), null);
});

t.test('an erasure of the shop removes every row up to its time, and none after it', async (t) => {
  const pipeline = await pipelines.fresh();
  const before = Date.now();
  await append(pipeline, lineOf(GONE, before), lineOf(STAYS, before));
  await pipeline.flush();
  await append(pipeline, lineOf(GONE, before + 1), lineOf(STAYS, before + 3));
  await erase(pipeline, EVERY_PROFILE, before + 2);
  await pipeline.flush();
  t.equal((await profilesOf(pipeline)).length, 3, 'one that waited was left out');
  await untilErased(pipeline);
  t.same(await profilesOf(pipeline), [STAYS]);
});

t.test(
  "an erasure removes the dead letters of its profile and of its customer's orders, and no others",
  async (t) => {
    const pipeline = await pipelines.fresh();
    const [dead, ofVisits] = [pipeline.keys.eventsDead(0), pipeline.keys.visits.eventsDead(0)];
    const at = Date.now();
    const named = (ids: object) => JSON.stringify({ ...JSON.parse(lineOf(STAYS, 1)), ...ids });
    // On a shared device a row belongs to its profile, even if it names another customer.
    const others = [
      named({ customer_id: 'stays', origin: 'purchase' }),
      named({ session_id: 'gone' }),
      named({ customer_id: 'gone' }),
    ];
    const ordered = named({ customer_id: 'gone', origin: 'purchase' });
    for (const line of [lineOf(GONE, at).trimEnd(), ordered, ...others]) await addLetter(dead, line);
    for (const id of [GONE, STAYS]) await addLetter(ofVisits, `1.007\t0\t0\t20\t${id}\that\t`);
    await pipeline.appendVisits([`${GONE}\that\t\n`]);
    for (const erased of [GONE, 'c:gone']) await erase(pipeline, erased, at);
    t.equal(await run(pipeline), 0, 'while a visit waits it is not due');
    await pipeline.flush();
    await untilErased(pipeline);
    const left = (await redis.xrange(dead, '-', '+')).map(([, fields]) => fields.at(-1));
    t.same(left, others);
    const visits = await redis.xrange(ofVisits, '-', '+');
    t.equal(visits.length, 1);
    t.match(JSON.stringify(visits), STAYS);
  },
);

t.test('unreadable dead letters keep no row in ClickHouse, and the erasure is repeated', async (t) => {
  const pipeline = await pipelines.freshDatabase();
  const { keys, clickhouse } = pipeline;
  await fill(pipeline, Date.now() - 60_000);
  await queue(keys, Date.now(), 0, GONE, 'c:gone');
  await redis.set(keys.eventsDead(0), 'no stream');
  await t.rejects(eraseAsFlusher(redis, keys, clickhouse), /WRONGTYPE/);
  const past = `SELECT count() AS n FROM events_stored WHERE profile_id = '${GONE}' AND occurred_at < now()`;
  t.same(await pipeline.ask(past), [{ n: '0' }], 'the rows are gone');
  t.equal(await redis.hlen(keys.erasures), 2, 'and it stays to be done');
  await redis.del(keys.eventsDead(0));
  const eraser = eraserOf(pipeline);
  await eraser.run();
  t.same(await eraser.run(), ['c:gone', GONE], 'customers first: the profile closes a request');
});

t.test("a line that becomes a dead letter during its visitor's erasure is removed, too", async (t) => {
  const pipeline = await pipelines.fresh();
  const { keys, clickhouse } = pipeline;
  const dead = keys.eventsDead(0);
  await erase(pipeline, GONE);
  // A batch begun earlier may end between any two reads of the eraser: here, before it reads the waiting
  // entries.
  const flushing = Object.create(redis, {
    xrevrange: {
      value: async (key: string) => {
        await addLetter(dead, lineOf(GONE, 1).trimEnd());
        return redis.xrevrange(key, '+', '-', 'COUNT', 1);
      },
    },
  });
  await until('it is erased', async () => (await eraseAsFlusher(flushing, keys, clickhouse)) > 0);
  t.equal(await redis.xlen(dead), 0);
});

t.test('an export leaves out rows that an erasure covers, visits by the clock of Redis', async (t) => {
  const pipeline = await pipelines.fresh();
  const now = Date.now();
  for (const at of [now - HOUR_MS, now]) await pipeline.appendVisits([`${GONE}\that\t\n`], '*', at);
  await pipeline.flush();
  const reader = new VisitorRowReader(() => pipelines.clickhouseUrl, pipeline.database);
  const erased = new Map([[GONE, `0 ${now - 1}`]]);
  const rows = await reader.read('visitLog', { profiles: [GONE], customers: [], erased }, never);
  const seen: string[] = [];
  for await (const some of rows ?? []) seen.push(...some);
  await reader.close();
  t.equal(seen.length, 1, 'the later one');
});

t.test('an erasure waits for lines that are on their way to their stream', async (t) => {
  const pipeline = await pipelines.fresh();
  await erase(pipeline, GONE);
  const began = performance.now();
  let waited = 0;
  const watched = Object.create(redis, {
    xrevrange: {
      value: (key: string) => {
        waited = performance.now() - began;
        return redis.xrevrange(key, '+', '-', 'COUNT', 1);
      },
    },
  });
  const eraser = eraserOf(pipeline, { redis: watched, inFlightMs: 200 });
  await eraser.run();
  t.same(await eraser.run(), [GONE]);
  t.ok(waited >= 199, `${waited} ms`);
});

t.test(
  "an erasure removes a customer's orders under other profiles, also after a crash between two tables",
  async (t) => {
    const pipeline = await pipelines.fresh();
    const { keys, clickhouse } = pipeline;
    const row = eventRow({ profile_id: STAYS, customer_id: 'gone', origin: 'purchase', product_id: '1' });
    const event = eventRow({ profile_id: STAYS, customer_id: 'gone', session_id: 'gone', product_id: '1' });
    await insertEvents(clickhouse, Buffer.from(eventLine(row) + eventLine(event)), never);
    await erase(pipeline, 'c:gone', Date.now() + 1_000);
    let commands = 0;
    const dying = Object.create(clickhouse, {
      command: {
        value: (what: Parameters<typeof clickhouse.command>[0]) =>
          ++commands > 1 ? Promise.reject(new Error('killed')) : clickhouse.command(what),
      },
    });
    await t.rejects(eraseAsFlusher(redis, keys, dying), /killed/);
    await untilErased(pipeline);
    const { events_stored } = await rowsOf(pipeline, STAYS);
    t.equal(events_stored, 1, 'only what is no order');
  },
);

for (const { mutation, when } of SOME_KILLS) {
  t.test(
    `the next flusher finishes an erasure after a kill -9 ${when === 'meanwhile' ? 'during' : when} mutation ${mutation} of ${ALL}`,
    async (t) => {
      const pipeline = await pipelines.freshDatabase();
      const before = Date.now() - 2 * HOUR_MS;
      await fill(pipeline, before);
      const all = await rowsOf(pipeline, STAYS);
      t.ok(Object.values(all).every((n) => n > 0));
      t.same(await rowsOf(pipeline, GONE), all);
      await erase(pipeline, GONE, before + 1_000);

      const { redisUrls, prefix, clickhouseUrl, database } = pipeline.processSpec;
      const spec: EraserProcessSpec = { redisUrls, prefix, clickhouseUrl, database, mutation, when };
      const child = fork(ERASER, [JSON.stringify(spec)], { execArgv: [] });
      t.teardown(() => child.kill('SIGKILL'));
      const [, signal] = await once(child, 'exit');
      t.equal(signal, 'SIGKILL');
      t.equal(await redis.hexists(pipeline.keys.erasures, GONE), 1, 'it is still written down');

      await untilErased(pipeline);
      t.equal(await redis.exists(pipeline.keys.erasures), 0);
      const none = Object.fromEntries(VISITOR_TABLES.map(({ name }) => [name, 0]));
      const later = { ...none, events_stored: 1, visits_stored: 1, steps_stored: 1 };
      t.same(await rowsOf(pipeline, GONE), later, 'only what came later is left');
      t.same(await rowsOf(pipeline, STAYS), all);
    },
  );
}

t.test('while ClickHouse is away an export is refused, and an erasure stays queued', async (t) => {
  const pipeline = await pipelines.freshDatabase();
  const proxy = await startProxy(t, pipelines.clickhouseUrl);
  const through = new URL(pipelines.clickhouseUrl);
  through.port = String(proxy.port);
  const where = { CLICKHOUSE_URL: through.href, CLICKHOUSE_DATABASE: pipeline.database };
  const env = { ...where, FLUSH_INTERVAL_MS: '50' };
  const app = await startApp(t, { urls: pipelines.redisUrls }, { env });
  const { shop } = app;
  const settings = { ...env, REDIS_URL: pipelines.redisUrls.join(','), KEY_PREFIX: app.prefix };
  const read = (customerId: string) => app.get(`/profile?customerId=${customerId}`, TRUSTED);
  const pending = () => app.figure('pending_erasures');
  const openRedactions = () => app.figure('requests_open{kind="customers/redact"}');

  const customers = ['1', '2', '3'];
  for (const customerId of customers) await shop.add({ customerId });
  const flushing = await flush(readConfig(settings), log);
  await until('their events are in ClickHouse', async () => {
    const found = await Promise.all(customers.map(read));
    return found.every(({ status, json }) => status === 200 && json.events.length === 1);
  });
  await flushing.close();

  proxy.retarget('http://127.0.0.1:1');
  proxy.dropAll();
  const error = /ClickHouse does not answer/;
  const headers = { 'retry-after': /^\d+$/ };
  t.match(await read('1'), { status: 503, headers, json: { code: 'unavailable', error } });
  const exporting = await wishmeter({ args: ['export', '--customer', '1'], env: settings });
  t.match(exporting, { code: 1, stdout: '', stderr: error });
  t.same(await shop.erase({ customerId: '1' }), { erased: true });
  const erasing = await wishmeter({ args: ['erase', '--customer', '2'], env: settings });
  t.match(erasing, { code: 0, stdout: '{"erased":true}\n' });
  const redact = { shop_id: 1, shop_domain: 'x.myshopify.com', customer: { id: 3, email: null } };
  const ofShopify = { ...TRUSTED, ...JSON_TYPE, 'x-shopify-event-id': 'e-3' };
  t.equal((await app.post('/webhook/customers/redact', redact, ofShopify)).status, 200);
  // A profile and an identity for each of the three.
  await until('all three are erased from Redis', async () => (await pending()) === 6);
  t.equal(await openRedactions(), 1);

  const clickhouse = connectToClickHouse(t, through.href, pipeline.database);
  const keys = createKeys(app.prefix);
  await t.rejects(
    until('the erasures are due', async () => (await eraseAsFlusher(redis, keys, clickhouse)) > 0),
    { code: /^ECONN(REFUSED|RESET)$/ },
  );
  t.equal(await pending(), 6, 'a flusher that fails forgets none');

  proxy.retarget(pipelines.clickhouseUrl);
  await until('they are erased from ClickHouse', async () => {
    await eraseAsFlusher(redis, keys, clickhouse);
    return (await pending()) === 0;
  });
  await until('the request is done', async () => (await openRedactions()) === 0);
  for (const customerId of customers) t.equal((await read(customerId)).status, 404);
  t.same(await pipeline.ask('SELECT count() AS n FROM events_stored'), [{ n: '0' }]);
});
