// `make demo`: a shop's afternoon in a minute. Some 5,000 visitors through HTTP, then what analysts see of
// it, then the proof: every count right, every acknowledged event in ClickHouse once. Exit code 1 if not.

import { setTimeout as sleep } from 'node:timers/promises';
import { type Analyst, createAnalyst } from './demo/analyst.js';
import type { Product } from './demo/catalogue.js';
import { type Book, createHttpShop } from './demo/http-shop.js';
import { createProgress } from './demo/progress.js';
import { reachService, type Service } from './demo/service.js';
import type { Shop, Shopper } from './demo/shop.js';
import { spendAfternoon } from './demo/visitor.js';

const VISITORS = 5_000;
/** In the shop at the same time. */
const AT_ONCE = 100;
/** Milliseconds that the last event may take to ClickHouse. */
const ARRIVAL_MS = 10_000;

const out = process.stdout;

interface Counts {
  checked: number;
  readonly wrong: string[];
}

async function main(): Promise<boolean> {
  const service = await reachService(process.env);
  try {
    return await afternoon(service);
  } finally {
    await service.stop();
  }
}

async function afternoon(service: Service): Promise<boolean> {
  const run = `demo-${Date.now().toString(36)}`;
  const { shop, book } = createHttpShop({ ...service, run });
  const analyst = createAnalyst(service.clickhouseUrl, service.database);
  const live: Counts = { checked: 0, wrong: [] };
  const final: Counts = { checked: 0, wrong: [] };

  out.write(`${VISITORS.toLocaleString('en')} visitors come to the shop at ${service.url}\n\n`);
  const began = performance.now();
  const lists = await visitAll(shop, run, book, live);
  const seconds = (performance.now() - began) / 1_000;
  const arrivedMs = await untilArrived(analyst, run, book);
  await readAll(shop, lists, final);

  await showTables(analyst);
  const ofEvents = await compareEvents(analyst, run, book);
  const rate = Math.round(book.requests / seconds).toLocaleString('en');
  return report([
    [
      book.refusals.size === 0,
      `${format(book.requests)} requests answered, ${rate} a second`,
      [...book.refusals].map(([sentence, n]) => `${n} × ${sentence}`),
    ],
    [
      live.wrong.length === 0,
      `${format(live.checked)} counts right while the visitors were in the shop`,
      live.wrong,
    ],
    [final.wrong.length === 0, `${format(final.checked)} counts right after it`, final.wrong],
    [
      arrivedMs !== undefined,
      `the last event was in ClickHouse ${arrivedMs ?? 'more than 10,000'} ms after the last visitor left`,
      [],
    ],
    [
      ofEvents.length === 0,
      `${format(book.events.size)} acknowledged events, each in ClickHouse once, as it was sent`,
      ofEvents,
    ],
  ]);
}

type Counted = { who: Shopper; counts: Map<Product, number> };

async function visitAll(shop: Shop, run: string, book: Book, live: Counts): Promise<Counted[]> {
  const progress = createProgress('Visitors', VISITORS, out);
  const lists: Counted[] = [];
  let next = 0;
  const comeAndGo = async () => {
    for (let number = next++; number < VISITORS; number = next++) {
      try {
        lists.push(await spendAfternoon(shop, run, number, checker(live)));
      } catch {
        // in the book of refusals; what this visitor's counts are is no longer known
      }
      progress.step(`${format(book.requests)} requests, ${format(book.events.size)} events`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, comeAndGo));
  progress.done();
  return lists;
}

/** Reads every count once more, when all is done. */
async function readAll(shop: Shop, lists: readonly Counted[], final: Counts): Promise<void> {
  const check = checker(final);
  const rest = [...lists];
  const read = async () => {
    for (let list = rest.pop(); list !== undefined; list = rest.pop()) {
      for (const [product, expected] of list.counts) {
        check(list.who, product, expected, await shop.count(list.who, product).catch(() => Number.NaN));
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, read));
}

function checker(counts: Counts) {
  return (who: Shopper, product: Product, expected: number, got: number) => {
    counts.checked += 1;
    if (got !== expected) counts.wrong.push(`${who.sessionId} ${product.handle}: ${got}, not ${expected}`);
  };
}

const ofThisRun = (run: string) =>
  `FROM events WHERE startsWith(JSONExtractString(payload, 'demo'), '${run}/')`;

/** Milliseconds until as many events are there as were acknowledged; undefined where that takes too long. */
async function untilArrived(analyst: Analyst, run: string, book: Book): Promise<number | undefined> {
  const began = performance.now();
  while (performance.now() - began < ARRIVAL_MS) {
    const [row] = await analyst.rows<{ n: number }>(`SELECT toUInt32(count()) AS n ${ofThisRun(run)}`);
    if (row && row.n >= book.events.size) return Math.round(performance.now() - began);
    await sleep(50);
  }
  return undefined;
}

/** What is wrong with the events in ClickHouse; nothing, one hopes. */
async function compareEvents(analyst: Analyst, run: string, book: Book): Promise<string[]> {
  const rows = await analyst.rows<{ demo: string; type: string; profile_id: string; n: number }>(
    `SELECT JSONExtractString(payload, 'demo') AS demo, any(type) AS type, any(profile_id) AS profile_id,
       toUInt32(count()) AS n ${ofThisRun(run)} GROUP BY demo`,
  );
  const stored = new Map(rows.map((row) => [row.demo, row]));
  const wrong: string[] = [];
  for (const [number, { type, profileId }] of book.events) {
    const row = stored.get(number);
    if (!row) wrong.push(`${number} (${type}) is missing`);
    else if (row.n !== 1) wrong.push(`${number} (${type}) is there ${row.n} times`);
    else if (row.type !== type || row.profile_id !== profileId) wrong.push(`${number} is another event`);
  }
  for (const number of stored.keys())
    if (!book.events.has(number)) wrong.push(`${number} was not acknowledged`);
  return wrong;
}

async function showTables(analyst: Analyst): Promise<void> {
  const tables: readonly [string, string][] = [
    ['Events per day and type', 'SELECT * FROM events_per_day'],
    ['Top products', 'SELECT * FROM top_products LIMIT 10'],
    ['Share links by channel', 'SELECT * FROM shares_by_channel'],
  ];
  for (const [title, query] of tables) out.write(`\n${title}: ${query}\n${await analyst.table(query)}`);
}

type Verdict = readonly [ok: boolean, sentence: string, wrong: readonly string[]];

function report(verdicts: readonly Verdict[]): boolean {
  out.write('\n');
  for (const [ok, sentence, wrong] of verdicts) {
    out.write(`${ok ? '✔' : '✘'} ${sentence}\n`);
    for (const line of wrong.slice(0, 5)) out.write(`    ${line}\n`);
    if (wrong.length > 5) out.write(`    and ${wrong.length - 5} more\n`);
  }
  return verdicts.every(([ok]) => ok);
}

function format(n: number): string {
  return n.toLocaleString('en');
}

try {
  process.exitCode = (await main()) ? 0 : 1;
} catch (error) {
  process.stderr.write(`demo: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
