// A shop whose server makes up devices, sources and channels without end: panels show the largest 20 rows, all others as one,
// and their sums are those of all.

import t from 'tap';
import { findChromium, launchChromium } from '../harness/chromium.js';
import { needs } from '../harness/needs.js';
import { openDrawn } from './browser.js';
import { dashboardOfShop, MONTH } from './fixtures.js';

/** Beyond what a call may have arguments: some 120,000. */
const WORDS = 150_000;

const { url, session, client } = await dashboardOfShop(t);
const before = new Map<string, number>();
for (const panel of ['devices', 'product_devices', 'sources', 'product_sources', 'channels'])
  before.set(panel, await total(panel));

await client.command({
  query: `INSERT INTO visits_stored (occurred_at, stream, entry, place, profile_id, product_handle, device)
    SELECT toDateTime64('${MONTH.from} 12:00:00', 3, 'UTC'), 7, number, 0, toString(number % 10), 'shoe', concat('device', number)
    FROM numbers(${WORDS})`,
});
await client.command({
  query: `INSERT INTO events_stored (event_id, type, occurred_at, profile_id, origin, product_id, product_handle, source, channel)
    SELECT generateUUIDv4(), if(number % 2 = 0, 'add', 'share'), toDateTime64('${MONTH.from} 12:00:00', 3, 'UTC'),
      concat('w', toString(number)), 'event', if(number % 2 = 0, '1', ''), if(number % 2 = 0, 'shoe', ''),
      concat('source', number), concat('channel', number)
    FROM numbers(2000)`,
});

async function rowsOf(panel: string): Promise<unknown[][]> {
  const answer = await fetch(`${url}/panels/${panel}?from=${MONTH.from}&to=${MONTH.to}&handle=shoe`, {
    headers: { cookie: await session() },
  });
  return ((await answer.json()) as { rows: unknown[][] }).rows;
}

async function total(panel: string): Promise<number> {
  return (await rowsOf(panel)).reduce((sum, row) => sum + Number(row[1]), 0);
}

t.test('a panel of shares has 20 rows at most; the last one is that of all others', async (t) => {
  for (const [panel, sent] of [
    ['devices', WORDS],
    ['product_devices', WORDS],
    ['sources', 1_000],
    ['product_sources', 1_000],
    ['channels', 1_000],
  ] as const) {
    const rows = await rowsOf(panel);
    t.equal(rows.length, 20, panel);
    t.same(
      rows.map(([word]) => word === null),
      [...new Array(19).fill(false), true],
      panel,
    );
    t.equal(await total(panel), (before.get(panel) as number) + sent, `${panel}: nothing is lost`);
  }
});

const chromium = findChromium();
t.test('in Chromium', 'missing' in chromium ? needs(chromium.missing) : {}, async (t) => {
  if ('missing' in chromium) return;
  const browser = await launchChromium(t, chromium.file);
  const { page, said } = await openDrawn(t, browser, url);
  t.same(said, []);
  for (const panel of ['devices', 'sources', 'channels']) {
    const names = page.locator(`[data-panel="${panel}"] .name`);
    t.ok((await names.count()) <= 20, panel);
    t.equal(await names.filter({ hasText: 'All others' }).count(), 1, panel);
  }
});
