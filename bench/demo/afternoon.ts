// The afternoon: all visitors, some of them at the same time, then every count read once more, then the
// events found again in ClickHouse. Gives what it found; what to make of it is demo.ts's.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Analyst } from './analyst.js';
import type { Product } from './catalogue.js';
import { type Book, createHttpShop, type ShopAddress } from './http-shop.js';
import { CountCheck, compareEvents, type Finding, type Stored } from './proof.js';
import type { Shop, Shopper } from './shop.js';
import { spendAfternoon } from './visitor.js';

/** In the shop at the same time. */
const AT_ONCE = 100;
/** Milliseconds that the last event may take to ClickHouse. */
const ARRIVAL_MS = 10_000;

type Counted = { who: Shopper; counts: Map<Product, number> };

/** @param onLeave called when a visitor has left, with a note on how far it is */
export async function runAfternoon(
  address: ShopAddress,
  visitors: number,
  analyst: Analyst,
  onLeave: (note: string) => void,
): Promise<Finding[]> {
  const { shop, book } = createHttpShop(address);
  const live = new CountCheck();
  const final = new CountCheck();

  const began = performance.now();
  const everyone = await visitAll(shop, book, address.run, visitors, live, onLeave);
  const rate = (book.requests * 1_000) / (performance.now() - began);
  const arrivedMs = await untilArrived(analyst, address.run, book);
  await readAll(shop, everyone, final);
  const stored = await storedEvents(analyst, address.run);

  return [
    {
      sentence: `${show(book.requests)} requests answered; ${show(rate)} a second while the visitors were there`,
      wrong: [...book.refusals].map(([sentence, times]) => `${times} × ${sentence}`),
    },
    { sentence: `${show(live.checked)} counts right while the visitors were there`, wrong: live.wrong },
    { sentence: `${show(final.checked)} counts right after they had left`, wrong: final.wrong },
    {
      sentence: `the last event was in ClickHouse ${show(arrivedMs ?? ARRIVAL_MS)} ms after the last visitor had left`,
      wrong: arrivedMs === undefined ? ['some are not there yet'] : [],
    },
    {
      sentence: `${show(book.events.size)} acknowledged events, each in ClickHouse once`,
      wrong: compareEvents(book.events, stored),
    },
  ];
}

async function visitAll(
  shop: Shop,
  book: Book,
  run: string,
  visitors: number,
  live: CountCheck,
  onLeave: (note: string) => void,
): Promise<Counted[]> {
  const everyone: Counted[] = [];
  let next = 0;
  await atOnce(async () => {
    for (let number = next++; number < visitors; number = next++) {
      try {
        everyone.push(await spendAfternoon(shop, run, number, live.check));
      } catch {
        // It is in the book; what the counts of this visitor are is not known any more.
      }
      onLeave(`${show(book.requests)} requests, ${show(book.events.size)} events`);
    }
  });
  return everyone;
}

/** Reads every count once more, when all is done. */
async function readAll(shop: Shop, everyone: readonly Counted[], final: CountCheck): Promise<void> {
  const rest = [...everyone];
  await atOnce(async () => {
    for (let one = rest.pop(); one !== undefined; one = rest.pop()) {
      for (const [product, expected] of one.counts) {
        final.check(one.who, product, expected, await shop.count(one.who, product).catch(() => Number.NaN));
      }
    }
  });
}

async function atOnce(work: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

const ofRun = (run: string) => `FROM events WHERE startsWith(JSONExtractString(payload, 'demo'), '${run}/')`;

/** Milliseconds until as many events are there as were acknowledged; undefined where that takes too long. */
async function untilArrived(analyst: Analyst, run: string, book: Book): Promise<number | undefined> {
  const began = performance.now();
  while (performance.now() - began < ARRIVAL_MS) {
    const [row] = await analyst.rows<{ rows: number }>(`SELECT toUInt32(count()) AS rows ${ofRun(run)}`);
    if (row && row.rows >= book.events.size) return performance.now() - began;
    await sleep(50);
  }
  return undefined;
}

function storedEvents(analyst: Analyst, run: string): Promise<Stored[]> {
  return analyst.rows<Stored>(
    `SELECT JSONExtractString(payload, 'demo') AS number, any(events.type) AS type,
       any(events.profile_id) AS profile_id, toUInt32(count()) AS rows ${ofRun(run)} GROUP BY number`,
  );
}

function show(n: number): string {
  return Math.round(n).toLocaleString('en');
}
