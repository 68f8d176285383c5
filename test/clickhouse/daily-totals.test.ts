// visits_per_day is right at every moment: before and after totals, with late and repeated visits, and through a crash.
// Old visits go once their day is totalled (VISIT_RETENTION_DAYS); totals stay, whatever settings change.

import type { ClickHouseClient } from '@clickhouse/client';
import { pino } from 'pino';
import t from 'tap';
import { keepDaysTotalled, QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { eraseRows } from '../../src/clickhouse/erase.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge } from '../../src/events/row.js';
import { until } from '../harness/until.js';
import { startDatabases } from './databases.js';
import { dateOf, insertVisits } from './small-world.js';

const { own, inTimeZone, emptied, insert, lines } = await startDatabases(t);
const PER_DAY = /_days?$/;

const perDay = () =>
  lines('SELECT day, product_handle, sum(visits) FROM visits_per_day GROUP BY ALL ORDER BY ALL');
const visitors = async () =>
  (await lines('SELECT uniqCombinedMerge(14)(visitors_sketch) FROM shop_visitors_per_day')).join();
async function forgetDays(): Promise<void> {
  for (const table of ['visit_hours', 'visit_days_stored'])
    await own.command({ query: `TRUNCATE TABLE ${table}` });
}
async function touchDays(time: string, isOnly = true): Promise<void> {
  if (isOnly) await forgetDays();
  const hours = `arrayJoin(['${one}', '${two}'])::Date + INTERVAL 1 HOUR`;
  await own.command({ query: `INSERT INTO visit_hours SELECT ${hours}, ${time}` });
}

const later = (ms = 0) => Date.now() + 2 * QUIET_MS + ms;

const [one, two] = [dateOf(1), dateOf(2)];
const THREE = [
  ['a', 'hat', 1, 1],
  ['b', 'hat', 1, 2],
  ['a', 'shoe', 2, 1],
] as const;
const shown = (first: number, second: number) => [`${one} hat ${first}`, `${two} shoe ${second}`];
const SHOWN = shown(2, 1);
async function start(visits: Parameters<typeof insertVisits>[1] = THREE): Promise<void> {
  await emptied();
  await insertVisits(own, visits);
}

t.test('a day is totalled once it is over and quiet, and its totals outlive its visits', async (t) => {
  await start();
  await own.insert({
    table: 'visits_stored',
    values: [{ occurred_at: Date.now() + 2 * 86_400_000, profile_id: 'a', product_handle: 'young' }],
    format: 'JSONEachRow',
  });
  t.same(await totalDays(own, Date.now()), [], 'visits came in just now');
  const before = await perDay();
  t.same(before.slice(0, 2), SHOWN);
  t.equal(before.length, 3);
  t.same(await totalDays(own, Date.now() + QUIET_MS + 1_000), [one, two], 'the third day is not over');
  t.same(await perDay(), before);
  t.same(await totalDays(own, Date.now() + QUIET_MS + 1_000), [], 'once');
  await own.command({ query: `TRUNCATE TABLE visits_stored` });
  t.same(await perDay(), SHOWN, 'those of closed days');
});

t.test('the sum of visits is the same in every daily view, for open and for closed days', async (t) => {
  await start([...THREE, ['a', 'shoe', 1, 5], ['a', 'hat', 1, 6]]);
  const sums = 'sum(visits), uniqCombinedMerge(14)(visitors_sketch)';
  for (const state of ['open', 'closed']) {
    const are = async (query: string, ...rows: string[]) => t.same(await lines(query), rows, state);
    await are('SELECT sum(visits) FROM visits_per_day', '5');
    await are(`SELECT ${sums} FROM visitors_per_day`, '5 2');
    await are(`SELECT ${sums} FROM shop_visitors_per_day`, '5 2');
    await are(`SELECT ${sums} FROM shop_visitors_per_day WHERE day = '${one}'`, '4 2');
    const ofShop = 'SELECT day, visits, visitors FROM shop_visitors_per_day ORDER BY day';
    await are(ofShop, `${one} 4 2`, `${two} 1 1`);
    const products = 'SELECT day, product_handle, visits, visitors FROM visitors_per_day ORDER BY ALL';
    await are(products, `${one} hat 3 2`, `${one} shoe 1 1`, `${two} shoe 1 1`);
    await totalDays(own, later());
  }
});

t.test('a late visit is in the answer at once, and a repeated one counts once', async (t) => {
  await start();
  await totalDays(own, later());
  t.same(await perDay(), SHOWN);
  await forgetDays();
  await insertVisits(own, [['c', 'hat', 1, 3]], 10);
  await insertVisits(own, [['c', 'hat', 1, 3]], 10);
  await insertVisits(own, THREE);
  const now = shown(3, 1);
  t.same(await perDay(), now);
  t.same(await visitors(), '3');
  t.same(await totalDays(own, later(1)), [one, two]);
  t.same(await perDay(), now);
  t.same(await visitors(), '3');
});

t.test('totals by two processes, or by one that broke off, count nothing twice', async (t) => {
  await start();
  const now = later();
  await Promise.all([totalDays(own, now), totalDays(own, now), totalDays(own, now + 5)]);
  t.same(await perDay(), SHOWN);
  t.same(await visitors(), '2');
  await touchDays('now64(3)');
  t.same(await perDay(), SHOWN);
  t.same(await visitors(), '2');
});

t.test('a visitor who logs in within a week becomes one with the earlier guest in the totals', async (t) => {
  await start();
  const evening = Date.parse(`${two}T23:59:00Z`) + 3_600_000;
  await touchDays(`toDateTime64('${one} 00:00:00', 3, 'UTC')`);
  t.same(await totalDays(own, evening), [one, two]);
  t.same(await visitors(), '2');
  await insert(encodeMerge(newEventId(evening), evening, 'b', { into: 'a', isNew: false }));
  t.same(await totalDays(own, evening + 3_600_000), [], 'not before the next day');
  t.same(await totalDays(own, evening + 86_500_000), [one, two]);
  t.same(await visitors(), '1');
  t.same(await perDay(), SHOWN, 'the visits are what they were');
  t.same(await totalDays(own, evening + 20 * 86_400_000), [], 'weeks later it is left as it is');
});

/** Noon of tomorrow: after all present inserts, and far from the end of a day. */
const NOON = Math.floor(Date.now() / 86_400_000) * 86_400_000 + 1.5 * 86_400_000;
const LATE = [
  ['late', 'hat', 1, 5],
  ['late', 'shoe', 2, 5],
] as const;
async function insertLate(ms: number, firstLine = 10): Promise<void> {
  await insertVisits(own, LATE, firstLine);
  await touchDays(`fromUnixTimestamp64Milli(${ms})`, false);
}

t.test('a visit that arrives while its day is being totalled is in the answer', async (t) => {
  await start();
  t.same(await totalDays(own, NOON), [one, two]);
  await insertLate(NOON - QUIET_MS + 1);
  t.same(await perDay(), shown(3, 2));
});

const visitsLeft = () => lines('SELECT profile_id FROM visits ORDER BY profile_id');

t.test(
  'a day is sealed when its visits are deleted, and neither happens while its totals are outdated',
  async (t) => {
    await start();
    const keptDays = Math.floor((NOON - Date.parse(one)) / 86_400_000) - 1;
    t.same(await totalDays(own, NOON, { keptDays: 36_500 }), [one, two]);
    await insertLate(NOON + QUIET_MS);
    t.same(await perDay(), shown(3, 2), 'both are open again');
    t.same(await totalDays(own, NOON + QUIET_MS + 1, { keptDays }), [], 'late visits may still come');
    t.same(await visitsLeft(), ['a', 'a', 'b', 'late', 'late'], 'no total has the late ones');
    t.same(await totalDays(own, NOON + 3 * QUIET_MS, { keptDays }), [one, two]);
    t.same(await visitsLeft(), ['a', 'late'], 'those of the first day are gone');
    await insertLate(NOON + 4 * QUIET_MS, 20);
    t.same(await perDay(), shown(3, 3), 'the first is sealed');
    t.same(await totalDays(own, NOON + 6 * QUIET_MS, { keptDays }), [two]);
    t.same(await perDay(), shown(3, 3));
  },
);

t.test('a day that is totalled again loses the rows of erased visits', async (t) => {
  await start([...THREE, ['b', 'sock', 1, 7], ['a', 'hat', 2, 8]]);
  await totalDays(own, NOON);
  await eraseRows(own, new Map([['b', `${NOON} ${NOON}`]]));
  await touchDays(`fromUnixTimestamp64Milli(${NOON + QUIET_MS})`, false);
  const views = async () => ({
    days: await perDay(),
    products: await lines('SELECT * EXCEPT visitors_sketch FROM visitors_per_day ORDER BY ALL'),
    shop: await lines('SELECT day, visits, visitors FROM shop_visitors_per_day ORDER BY day'),
  });
  const open = await views();
  t.same(open.shop, [`${one} 1 1`, `${two} 2 1`]);
  t.same(await totalDays(own, NOON + 3 * QUIET_MS), [one, two]);
  t.same(await views(), open, 'closed again');
  await eraseRows(own, new Map([['a', `${NOON} ${NOON}`]]));
  await touchDays(`fromUnixTimestamp64Milli(${NOON + 4 * QUIET_MS})`, false);
  t.same(await totalDays(own, NOON + 6 * QUIET_MS), [one, two]);
  t.same(await views(), { days: [], products: [], shop: [] }, 'nobody is left');
});

t.test('changing SHOP_TIMEZONE and lowering VISIT_RETENTION_DAYS together loses no total', async (t) => {
  await start();
  await totalDays(own, NOON, { keptDays: 1_000 });
  const timeZone = 'Asia/Kolkata';
  await inTimeZone(t, timeZone, PER_DAY);
  const before = await perDay();
  // A visit has just come in: no day is totalled in the new zone, so no visit is deleted.
  await touchDays(`fromUnixTimestamp64Milli(${NOON})`, false);
  await totalDays(own, NOON + 1, { keptDays: 10, timeZone });
  t.same(await visitsLeft(), ['a', 'a', 'b']);
  t.same(await perDay(), before);
  await totalDays(own, NOON + 2 * QUIET_MS, { keptDays: 10, timeZone });
  t.same(await visitsLeft(), []);
  t.same(await perDay(), before);
  await inTimeZone(t, 'UTC', PER_DAY);
  await totalDays(own, NOON + 4 * QUIET_MS, { keptDays: 1_000 });
  t.same(await perDay(), before, 'and back');
});

const DAY_MS = 86_400_000;

t.test('daily views have the days of SHOP_TIMEZONE, and ignore totals of another zone', async (t) => {
  await emptied();
  const visit = (time: string, line: number) => ({
    ...{ occurred_at: `2025-03-${time}`, stream: 0, entry: 0, line },
    ...{ profile_id: 'a', product_handle: 'hat', device: '' },
  });
  // In Berlin a day of 23 hours begins at 23:00 of the 29th, and the next one at 22:00. In India one begins at 18:30.
  const times = ['29 22:59:59.999', '29 23:00:00.000', '30 21:59:59.999', '30 22:00:00.000'];
  times.push('31 18:45:00.000');
  await own.insert({ table: 'visits_stored', values: times.map(visit), format: 'JSONEachRow' });
  const days = async (expected: Readonly<Record<string, string>>, state: string) => {
    for (const view of ['visits_per_day', 'visitors_per_day', 'shop_visitors_per_day']) {
      const rows = await lines(`SELECT day, sum(visits) FROM ${view} GROUP BY day ORDER BY day`);
      t.same(Object.fromEntries(rows.map((row) => row.split(' '))), expected, `${view}, ${state}`);
    }
  };
  const ofUtc = { '2025-03-29': '2', '2025-03-30': '2', '2025-03-31': '1' };
  const ofBerlin = { '2025-03-29': '1', '2025-03-30': '2', '2025-03-31': '2' };
  const ofIndia = { '2025-03-30': '2', '2025-03-31': '2', '2025-04-01': '1' };
  const within = (timeZone: string) => inTimeZone(t, timeZone, PER_DAY);
  await totalDays(own, later());
  await days(ofUtc, 'closed in UTC');
  await within('Europe/Berlin');
  await days(ofBerlin, 'open');
  t.same(await totalDays(own, later(), { timeZone: 'Europe/Berlin' }), Object.keys(ofBerlin));
  await days(ofBerlin, 'closed in Berlin');
  await within('Asia/Kolkata');
  await days(ofIndia, 'open');
  t.same(await totalDays(own, later(), { timeZone: 'Asia/Kolkata' }), Object.keys(ofIndia));
  await days(ofIndia, 'closed in India');
  await within('Europe/Berlin');
  await days(ofBerlin, 'closed in Berlin before');
  await totalDays(own, later(), { timeZone: 'Europe/Berlin', keptDays: 40 });
  await own.command({ query: 'TRUNCATE TABLE visits_stored' });
  await within('UTC');
  await days(ofBerlin, 'sealed in Berlin: its visits are gone');
});

t.test('VISIT_RETENTION_DAYS deletes older visits, also after it is lowered, and totals stay', async (t) => {
  await emptied();
  const now = Date.now();
  const rowOf = (days: number) => ({
    ...{ stream: 0, entry: days, line: 0, profile_id: `of-${days}`, product_handle: 'p', device: '' },
    occurred_at: new Date(now - days * DAY_MS).toISOString().slice(0, 23).replace('T', ' '),
  });
  await own.insert({ table: 'visits_stored', values: [9, 12, 30, 60].map(rowOf), format: 'JSONEachRow' });
  const totals = await perDay();
  t.equal(totals.length, 4);
  let at = now + 2 * QUIET_MS;
  const left = async (keptDays: number, ...days: number[]) => {
    at += QUIET_MS;
    await totalDays(own, at, { keptDays });
    t.same(await visitsLeft(), days.map((day) => `of-${day}`).sort(), String(keptDays));
    t.same(await perDay(), totals);
  };
  await left(0, 9, 12, 30, 60);
  await left(40, 9, 12, 30);
  await left(10, 9);
  await left(0, 9);
});

t.test('days are totalled again and again until the task is closed', async (t) => {
  let tick = () => {};
  let runs = 0;
  const empty = {
    query: async () => ({ json: async () => [] }),
    command: async () => void runs++,
  } as unknown as ClickHouseClient;
  t.capture(globalThis, 'setInterval', (act: () => void) => {
    tick = act;
    return { unref() {} };
  });
  const days = { keptDays: 0, timeZone: 'UTC', cluster: '' };
  const close = keepDaysTotalled(empty, days, pino({ level: 'silent' }));
  await until('they are totalled again and again', () => {
    tick();
    return runs >= 3;
  });
  await close();
});
