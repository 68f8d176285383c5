// The afternoon: all visitors, some of them at the same time, then every count and wishlist read once more,
// then the events looked up in ClickHouse. Returns the findings; demo.ts reports them.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import pLimit from 'p-limit';
import { Check, type Checks } from './check.js';
import { type Belongings, Diary } from './diary.js';
import { type Book, createHttpShop, type Shop, type ShopAddress } from './http-shop.js';
import { compareEvents, type Finding, type Known, storedEvents, untilArrived } from './proof.js';
import { spendAfternoon } from './visitor.js';

/** In the shop at the same time. */
const MAX_CONCURRENT_VISITORS = 100;
/** Milliseconds that the last event may take to ClickHouse. */
const ARRIVAL_MS = 10_000;
/** Milliseconds after which an unexpected event would have reached ClickHouse. */
const SETTLE_MS = 3_000;

/** Gets a line for each tenth of the visitors. */
type Say = (line: string) => void;

export async function runAfternoon(
  address: ShopAddress,
  visitors: number,
  analyst: ClickHouseClient,
  say: Say,
): Promise<Finding[]> {
  const { shop, book } = createHttpShop(address);
  const live: Checks = { counts: new Check(), wishlists: new Check() };
  const final: Checks = { counts: new Check(), wishlists: new Check() };

  await shop.open();
  const began = performance.now();
  const diaries = await visitAll(shop, book, visitors, live, say);
  const rate = (book.requests * 1_000) / (performance.now() - began);
  const events = diaries.reduce((sum, diary) => sum + diary.events.length, 0);
  const arrivedMs = await untilArrived(analyst, events, ARRIVAL_MS);
  const [everyone] = await Promise.all([readAll(shop, diaries, final, say), sleep(SETTLE_MS)]);
  const stored = await storedEvents(analyst);

  return [
    {
      sentence: `${show(book.requests)} requests answered; ${show(rate)} a second while the visitors were there; ${show(book.retries)} sent again after Retry-After`,
      wrong: [...book.refusals].map(([sentence, times]) => `${times} × ${sentence}`),
    },
    finding(live.counts, 'counts right while the visitors were there'),
    finding(final.counts, 'counts right after they had left'),
    finding(live.wishlists, 'answers about wishlists right while the visitors were there'),
    finding(
      final.wishlists,
      `answers about wishlists right after ${show(book.orders)} orders, some delivered twice`,
    ),
    {
      sentence: `the last event was in ClickHouse ${show(arrivedMs ?? ARRIVAL_MS)} ms after the last visitor had left`,
      wrong: arrivedMs === undefined ? ['some are not there yet'] : [],
    },
    {
      sentence: `${show(events)} acknowledged events, each in ClickHouse once, under its visitor's profile, and no other`,
      wrong: compareEvents(everyone, stored),
    },
  ];
}

async function visitAll(shop: Shop, book: Book, visitors: number, live: Checks, say: Say): Promise<Diary[]> {
  const diaries = Array.from({ length: visitors }, (_, number) => new Diary(number));
  let events = 0;
  await forEach('Visitors', diaries, say, async (diary) => {
    // What was refused is in the book; the diary ends there.
    await spendAfternoon(shop, diary, live).catch(() => {});
    events += diary.events.length;
    return `${show(book.requests)} requests, ${show(events)} events`;
  });
  return diaries;
}

/** Reads every count and wishlist once more, when all is done: as each that the visitor was known as. */
async function readAll(shop: Shop, diaries: readonly Diary[], final: Checks, say: Say): Promise<Known[]> {
  const everyone: Known[] = [];
  await forEach('Read again', diaries, say, async (diary) => {
    const known = diary.left && (await readOne(shop, diary, diary.left, final).catch(() => undefined));
    everyone.push({ diary, profileId: known });
    return `${show(final.counts.checked)} counts, ${show(final.wishlists.checked)} answers about wishlists`;
  });
  return everyone;
}

/** @returns the visitor's profile */
async function readOne(shop: Shop, diary: Diary, own: Belongings, final: Checks): Promise<string> {
  let profileId: string | undefined;
  for (const who of diary.appearances) {
    for (const [product, expected] of own.counts) {
      final.counts.count(who, product, expected, await shop.count(who, product));
    }
    const list = await shop.wishlist(who);
    final.wishlists.wishlist(who, own, list.items);
    profileId ??= list.profileId;
    final.wishlists.same(who, 'profile', profileId, list.profileId);
  }
  for (const code of own.codes) {
    const who = diary.appearances.at(-1);
    if (who) final.wishlists.wishlist(who, own, (await shop.shared(code)).items);
  }
  return profileId ?? '';
}

/** @param work resolves to what is said after each tenth of them */
async function forEach(
  what: string,
  diaries: readonly Diary[],
  say: Say,
  work: (diary: Diary) => Promise<string>,
): Promise<void> {
  const total = diaries.length;
  let done = 0;
  await pLimit(MAX_CONCURRENT_VISITORS).map(diaries, async (diary) => {
    const note = await work(diary);
    done += 1;
    if (done % Math.ceil(total / 10) === 0 || done === total) say(`${what} ${done}/${total} · ${note}`);
  });
}

function finding({ checked, wrong }: Check, what: string): Finding {
  return { sentence: `${show(checked)} ${what}`, wrong };
}

function show(n: number): string {
  return Math.round(n).toLocaleString('en');
}
