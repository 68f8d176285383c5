// What visitors' rights cost a shop that goes on: the erasure of a whole shop, guests who go because they were not seen for
// long, both beside visits at a modest rate; how soon a compliance webhook is answered; an erasure from ClickHouse.

import { deepEqual } from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { type ErasedProfile, eraseRows, VISITOR_TABLES } from '../../src/clickhouse/erase.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { startClickHouse } from '../../src/embedded/clickhouse.js';
import type { ComplianceRequest } from '../../src/identity/compliance.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Bench } from '../bench.js';
import { type Metered, startMeter } from '../cpu.js';
import { fillGuests, fillVisits, sendRequests } from '../load/fill.js';
import { type Pings, startPings } from '../load/pings.js';
import { runSteady, type SteadyResult } from '../load/steady.js';
import { ask } from '../proofs/http.js';
import { same } from '../proofs/proof.js';
import { rowsOf, untilMerged } from '../servers/clickhouse.js';
import { countKeys, startBenchRedis, sumHashes, untilWritten } from '../servers/redis.js';
import { listenToRedis } from '../servers/slow-redis.js';
import type { Target } from '../servers/target.js';
import { startWishmeter } from '../servers/wishmeter.js';
import { percentile } from '../statistics.js';
import { CATALOGUE, type Product } from '../traffic/catalogue.js';
import { customerId, sessionId } from '../traffic/people.js';
import { itemsOf, KEY, postItem, postLogin, postVisit, type Visit, visitsOf } from '../traffic/requests.js';
import { makeYear } from '../traffic/year.js';

/** Visits per second meanwhile, of so many visitors who come back. */
const RATE = 1_000;
const COMING_BACK = 1_000;
const QUIET_RUNS = 3;
/** Of the shop's visitors, those who signed in, with a wishlist. */
const SIGNED_IN = 0.02;
const WEBHOOKS = 200;
const WEBHOOK_EVERY_MS = 25;
/** One of so many guests was not seen for long. */
const EXPIRED_OF = 10;
/** Days ago, where GUEST_RETENTION_DAYS is 365: of those who go, and at most of the others. */
const [LONG_AGO, RECENT] = [400, 300];
const DAY_S = 86_400;
/** Bytes of memory for each guest: Redis, its fork, the file it writes. */
const BYTES_PER_GUEST = 600;
const FEWER_GUESTS = 1_000_000;
/** A sweep rests between its steps; without a step for so long it is over. */
const SWEEP_RESTS_MS = 5_000;
const LOOK_MS = 100;
const SAMPLE = 200;
const ERASED_PROFILES = 1_000;
/** Of its rows, events; the others are visits. */
const EVENTS_SHARE = 0.1;

const keys = createKeys('wm');

type Run = Omit<SteadyResult, 'slowest'> & Metered;

/** Something that is done beside visits. */
export interface Beside {
  readonly seconds: number;
  /** Seconds of CPU beyond what the visits take. */
  readonly redisCpu: number;
  /** Longest command, or whatever else kept Redis, as it tells itself; milliseconds. */
  readonly pauseMs: number;
  readonly told: Readonly<Record<string, number>>;
  readonly pings: Pings;
  readonly runs: Readonly<Record<'before' | 'meanwhile', readonly Run[]>>;
}

export interface Rights {
  /** Visits per second. */
  readonly rate: number;
  readonly shop: Beside & { readonly visitors: number; readonly signedIn: number };
  readonly sweep: Beside & { readonly guests: number; readonly expired: number };
  readonly webhooks: { readonly count: number; readonly p99Ms: number; readonly longestMs: number };
  readonly clickhouse: { readonly rows: number; readonly profiles: number; readonly seconds: number };
}

export async function measureRights(bench: Bench): Promise<Rights> {
  const { shop, webhooks } = await measureShop(bench);
  return {
    rate: RATE,
    shop,
    webhooks,
    sweep: await measureSweep(bench),
    clickhouse: await measureRows(bench),
  };
}

async function measureShop(bench: Bench): Promise<Pick<Rights, 'shop' | 'webhooks'>> {
  const visitors = bench.settings.crowds[1] as number;
  const signedIn = Math.round(visitors * SIGNED_IN);
  const target = await startShop(bench);
  const { port } = target;
  try {
    bench.say(`${visitors} visitors come to a shop, ${signedIn} of them sign in`);
    await fillVisits(port, visitsBy(visitors));
    await sendRequests(port, loginsOf(signedIn));
    await sendRequests(port, itemsOf(numbers(signedIn)).map(postItem));
    await ask(port, 'PUT', '/settings', { autoRemoveAfterPurchase: true });
    const redis = await pausesOff(target);

    const webhooks = await measureWebhooks(bench, target, signedIn);
    bench.say(`webhooks answered in ${webhooks.p99Ms.toFixed(1)} ms, p99`);

    const [last] = numbers(visitors).slice(-1) as [number];
    same('a visitor of the shop', await countOf(port, last), 1);
    const shop = await beside(bench, target, async () => {
      await redact(port, 'shop/redact', {}, 'of the shop');
      await untilErased(redis, 'shop/redact');
      return performance.now();
    });
    bench.say(`a shop erased in ${shop.seconds.toFixed(1)} s, longest pause ${shop.pauseMs.toFixed(1)} ms`);

    const doors = await sumHashes([redis], keys.door('*.*'));
    if (doors.keys > COMING_BACK) throw new Error(`${doors.keys} visitors are left`);
    for (const kind of [keys.room('*.*'), keys.items('*.*')])
      same(kind, (await sumHashes([redis], kind)).keys, 0);
    for (const n of sampleOf(visitors)) same(`visitor ${n}`, await countOf(port, n), 0);
    for (const n of sampleOf(signedIn)) same(`customer ${n}`, await countOfCustomer(port, n), 0);
    deepEqual(await ask(port, 'GET', '/settings'), { autoRemoveAfterPurchase: true });
    return { webhooks, shop: { ...shop, visitors, signedIn } };
  } finally {
    await target.stop();
  }
}

/** Customers' erasures, beside visits: how soon they are answered. What they ask for is done meanwhile and afterwards. */
async function measureWebhooks(bench: Bench, target: Target, signedIn: number): Promise<Rights['webhooks']> {
  const { port } = target;
  const stays = sampleOf(signedIn).filter((n) => n >= WEBHOOKS);
  const counts = () => Promise.all(stays.map((n) => countOfCustomer(port, n)));
  const before = await counts();
  same('a customer', await countOfCustomer(port, 0), 2);
  const seconds = (WEBHOOKS * WEBHOOK_EVERY_MS) / 1_000 + 2;
  const load = runAtRate(bench, target, seconds);
  await sleep(2_000);
  const took = await Promise.all(
    numbers(WEBHOOKS).map(async (n) => {
      await sleep(n * WEBHOOK_EVERY_MS);
      const customer = { id: Number(customerId(n)), email: null };
      const began = performance.now();
      await redact(port, 'customers/redact', { customer, orders_to_redact: [n] }, String(n));
      return performance.now() - began;
    }),
  );
  await load;
  await untilErased(target.redis as Redis, 'customers/redact');
  for (const n of numbers(WEBHOOKS)) same(`customer ${n}`, await countOfCustomer(port, n), 0);
  deepEqual(await counts(), before);
  const sorted = took.sort((a, b) => a - b);
  return { count: WEBHOOKS, p99Ms: percentile(sorted, 0.99), longestMs: percentile(sorted, 1) };
}

async function measureSweep(bench: Bench): Promise<Rights['sweep']> {
  const guests = freeBytes() < bench.settings.guests * BYTES_PER_GUEST ? FEWER_GUESTS : bench.settings.guests;
  const expired = Math.ceil(guests / EXPIRED_OF);
  const isExpired = (n: number) => n % EXPIRED_OF === 0;
  const dir = bench.folder();
  const redis = await startBenchRedis(join(dir, 'redis'));
  const today = Math.floor(Date.now() / 1_000 / DAY_S);
  const guestsBy = function* () {
    for (const n of upTo(guests))
      yield { ...nthVisit(n), day: today - (isExpired(n) ? LONG_AGO : 1 + (n % RECENT)) };
  };
  bench.say(`${guests} guests, ${expired} of whom were not seen for long`);
  await fillGuests(redis.url, guestsBy());
  // Its first sweep begins a minute after its start.
  const target = await startWishmeter(
    { server: 'wishmeter', dir, isUnlogged: true },
    [redis],
    async () => {},
  );
  try {
    const { port } = target;
    const client = await pausesOff(target);
    const sweep = await beside(
      bench,
      target,
      async () => {
        const before = await pagesOf(client);
        let pages = before;
        let since = performance.now();
        // First it looks at buckets, and then at pages of keys.
        while (pages === before || performance.now() - since < SWEEP_RESTS_MS) {
          await sleep(LOOK_MS);
          const now = await pagesOf(client);
          if (now !== pages) since = performance.now();
          pages = now;
        }
        return since;
      },
      async () => {
        while ((await client.exists(keys.sweep)) === 0) await sleep(LOOK_MS);
      },
    );
    bench.say(`swept in ${sweep.seconds.toFixed(1)} s, longest pause ${sweep.pauseMs.toFixed(1)} ms`);

    same('guests that stay', (await countKeys(client, keys.door('*.s*'))) - COMING_BACK, guests - expired);
    for (const n of sampleOf(guests)) same(`guest ${n}`, await countOf(port, n), isExpired(n) ? 0 : 1);
    return { ...sweep, guests, expired };
  } finally {
    await target.stop();
  }
}

async function measureRows({ settings, folder, say }: Bench): Promise<Rights['clickhouse']> {
  const rows = settings.rows[1];
  const clickhouse = await startClickHouse({ dir: join(folder(), 'clickhouse'), restart: false });
  const admin = createClickHouse(clickhouse.url);
  await migrate(admin, 'rights');
  await admin.close();
  const client = createClickHouse(clickhouse.url, 'rights');
  try {
    say(`${rows} rows in ClickHouse, of which those of ${ERASED_PROFILES} profiles go`);
    const events = Math.round(rows * EVENTS_SHARE);
    await makeYear(client, { events, visits: rows - events });
    await untilMerged(client);
    const found = await rowsOf<{ id: string }>(
      client,
      `SELECT DISTINCT profile_id AS id FROM visits_stored ORDER BY sipHash64(id) LIMIT ${ERASED_PROFILES}`,
    );
    const until = { server: Date.now(), redis: Date.now() };
    const profiles = found.map(({ id }): ErasedProfile => ({ profileId: id, until }));
    const count = async (name: string, profile: string, isHash = false) => {
      const ids = found.map(({ id }) => (isHash ? `sipHash64('${id}')` : `'${id}'`)).join();
      const [row] = await rowsOf<{ all: number; theirs: number }>(
        client,
        `SELECT toFloat64(count()) AS all, toFloat64(countIf(${profile} IN (${ids}))) AS theirs FROM ${name}`,
      );
      return row as { all: number; theirs: number };
    };
    const counts = async () =>
      Object.fromEntries(
        await Promise.all(
          VISITOR_TABLES.map(
            async ({ name, profile, isHash }) => [name, await count(name, profile, isHash)] as const,
          ),
        ),
      );
    const before = await counts();
    for (const [name, { theirs }] of Object.entries(before))
      if (theirs === 0) throw new Error(`${name} has no row of them`);
    const began = performance.now();
    await eraseRows(client, profiles);
    const seconds = (performance.now() - began) / 1_000;
    say(`erased from ClickHouse in ${seconds.toFixed(1)} s`);
    const expected = Object.entries(before).map(([name, { all, theirs }]) => [
      name,
      { all: all - theirs, theirs: 0 },
    ]);
    deepEqual(await counts(), Object.fromEntries(expected));
    return { rows, profiles: profiles.length, seconds };
  } finally {
    await client.close();
    await clickhouse.stop();
  }
}

async function startShop(bench: Bench): Promise<Target> {
  const dir = bench.folder();
  const redis = await startBenchRedis(join(dir, 'redis'));
  return startWishmeter({ server: 'wishmeter', dir }, [redis], async () => {});
}

/** Nothing is to come between that has a section of its own, or is not asked for: rewrites of the file, sweeps. */
async function pausesOff(target: Target): Promise<Redis> {
  const redis = target.redis as Redis;
  await untilWritten(redis);
  await redis.config('SET', 'auto-aof-rewrite-percentage', 0);
  return redis;
}

/**
 * Visits at a fixed rate, for a while and then beside something.
 * @param work resolves with when it was over (performance.now())
 * @param begun resolves when it begins
 */
async function beside(
  bench: Bench,
  target: Target,
  work: () => Promise<number>,
  begun: () => Promise<void> = async () => {},
): Promise<Beside> {
  const redis = target.redis as Redis;
  const runs = { before: [] as Run[], meanwhile: [] as Run[] };
  const seconds = bench.settings.quick ? 3 : 5;
  for (let n = 0; n < QUIET_RUNS; n++) runs.before.push(await runAtRate(bench, target, seconds));
  await begun();
  const told = await listenToRedis(redis);
  const pinged = await startPings(redis);
  const meter = startMeter(target);
  const began = performance.now();
  let ended: number | undefined;
  const working = work().then((at) => {
    ended = at;
  });
  working.catch(() => {
    ended = Number.NaN;
  });
  while (ended === undefined) runs.meanwhile.push(await runAtRate(bench, target, seconds));
  await working;
  const { cpu } = meter();
  const pings = await pinged();
  const causes = await told();
  const perVisit = cpuOfRedis(runs.before) / answered(runs.before);
  return {
    seconds: (ended - began) / 1_000,
    redisCpu: Math.max(0, (cpu.redis ?? 0) - perVisit * answered(runs.meanwhile)),
    pauseMs: Math.max(...Object.values(causes)),
    told: causes,
    pings,
    runs,
  };
}

const answered = (runs: readonly Run[]) => runs.reduce((sum, run) => sum + run.answered, 0);
const cpuOfRedis = (runs: readonly Run[]) => runs.reduce((sum, { cpu }) => sum + (cpu.redis ?? 0), 0);

async function runAtRate(bench: Bench, target: Target, seconds: number): Promise<Run> {
  const { port } = target;
  const meter = startMeter(target);
  const { slowest, ...result } = await runSteady({
    port,
    pool: poolOf(bench),
    rate: RATE,
    seconds,
    settleSeconds: 1,
  });
  return { ...result, ...meter() };
}

/** Visits of those who come back, who are beyond all others. */
function poolOf(bench: Bench) {
  const first = bench.settings.guests + (bench.settings.crowds[1] as number);
  const visits = visitsOf(numbers(COMING_BACK).map((n) => first + n));
  return bench.pools.add('rights', { writes: true, requests: visits.map((visit) => postVisit(visit)) });
}

async function redact(port: number, kind: string, more: object, event: string): Promise<void> {
  const shop = { shop_id: 954889, shop_domain: 'shop.myshopify.com' };
  await ask(
    port,
    'POST',
    `/webhook/${kind}`,
    { ...shop, ...more },
    {
      authorization: `Bearer ${KEY}`,
      'x-shopify-event-id': event,
    },
  );
}

/** Resolves when what was asked for is gone from Redis. (There is no ClickHouse, so the requests stay open.) */
async function untilErased(redis: Redis, kind: ComplianceRequest['kind']): Promise<void> {
  for (;;) {
    const held = Object.entries(await redis.hgetall(keys.compliance)).filter(([id]) => id !== '#');
    const asked = held
      .map(([, text]) => JSON.parse(text) as ComplianceRequest)
      .filter((one) => one.kind === kind);
    if (asked.length > 0 && asked.every(({ erased }) => erased)) return;
    await sleep(LOOK_MS);
  }
}

/** How many times Redis was asked for a page of its keys, which only a sweep does. */
async function pagesOf(redis: Redis): Promise<number> {
  const [, calls] = /^cmdstat_scan:calls=(\d+)/m.exec(await redis.info('commandstats')) ?? [];
  return Number(calls ?? 0);
}

async function countOf(port: number, n: number): Promise<unknown> {
  const { sessionId: id, productHandle } = nthVisit(n);
  return (await ask(port, 'GET', `/product/visit?sessionId=${id}&productHandle=${productHandle}`))['count'];
}

async function countOfCustomer(port: number, n: number): Promise<unknown> {
  const { productHandle } = nthVisit(n);
  return (
    await ask(port, 'GET', `/product/visit?customerId=${customerId(n)}&productHandle=${productHandle}`)
  )['count'];
}

function nthVisit(n: number): Visit {
  return { sessionId: sessionId(n), productHandle: (CATALOGUE[n % CATALOGUE.length] as Product).handle };
}

function* upTo(count: number): Generator<number> {
  for (let n = 0; n < count; n++) yield n;
}

function* visitsBy(visitors: number): Generator<Visit> {
  for (const n of upTo(visitors)) yield nthVisit(n);
}

function* loginsOf(signedIn: number): Generator<string> {
  for (const n of upTo(signedIn)) yield postLogin(customerId(n), nthVisit(n));
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

/** Some of so many, from the first to the last. */
function sampleOf(count: number): number[] {
  return numbers(SAMPLE).map((n) => Math.floor((n * (count - 1)) / (SAMPLE - 1)));
}

function freeBytes(): number {
  const [, kb] = /^MemAvailable: +(\d+)/m.exec(readFileSync('/proc/meminfo', 'latin1')) ?? [];
  return Number(kb) * 1_024;
}
