// Reads the report's figures by the statements of the dashboard's panels: last weeks from Monday to Sunday, with the
// weeks before.

import type { ClickHouseClient } from '@clickhouse/client';
import { definitionOf } from '../../../clickhouse/views.js';
import { comparedStatementOf, type Panel, type Range, statementOf } from '../panel.js';
import { PANELS } from '../panels.js';
import { readRows } from '../rows.js';

const LONGEST = 5;
const MOST_WISHED = 10;
/** The days of the wishes that are compared with restocks and purchases. */
const WISH_DAYS = 90;
const PATIENCE_MS = 60_000;
const DAY_MS = 86_400_000;

export interface Figure {
  readonly name: string;
  /** Of an amount. */
  readonly currency?: string;
  readonly now: number;
  readonly before: number;
}

export interface Product {
  readonly title: string;
  readonly handle: string;
  readonly n: number;
  /** Wishers more or fewer than in the 7 days before. */
  readonly change?: number;
}

export interface Report {
  readonly days: Range;
  readonly before: Range;
  readonly wishDays: Range;
  readonly figures: readonly Figure[];
  readonly mostWished: readonly Product[];
  readonly rising: readonly Product[];
  readonly backInStock: readonly Product[];
  readonly neverBought: readonly Product[];
}

type Row = Readonly<Record<string, unknown>>;

const NEVER_BOUGHT: Panel = {
  name: 'never_bought',
  title: 'Wished and never bought',
  sql: `SELECT *\nFROM\n(\n${definitionOf('wished_never_bought')}\n)\nWHERE never_bought > 0\nLIMIT ${LONGEST}`,
};

const panel = (name: string) => PANELS.find((one) => one.name === name) as Panel;
const iso = (ms: number) => new Date(ms).toISOString().slice(0, 10);

/** @param now milliseconds since 1970 */
export function lastWeeks(weeks: number, timeZone: string, now: number): Range {
  const today = Date.parse(new Intl.DateTimeFormat('sv', { timeZone }).format(now));
  const monday = today - ((new Date(today).getUTCDay() + 6) % 7) * DAY_MS;
  return { from: iso(monday - weeks * 7 * DAY_MS), to: iso(monday - DAY_MS) };
}

const earlier = (day: string, days: number) => iso(Date.parse(day) - days * DAY_MS);

export async function readReport(
  clickhouse: ClickHouseClient,
  days: Range,
  timeZone: string,
): Promise<Report> {
  const length = (Date.parse(days.to) - Date.parse(days.from)) / DAY_MS + 1;
  const before = { from: earlier(days.from, length), to: earlier(days.from, 1) };
  const wishDays = { from: earlier(days.to, WISH_DAYS - 1), to: days.to };
  const ask = async (sql: string): Promise<readonly Row[]> => {
    const { names, rows } = await readRows(clickhouse, sql, {}, AbortSignal.timeout(PATIENCE_MS));
    return rows.map((row) => Object.fromEntries(row.map((value, i) => [names[i] as string, value])));
  };
  const compared = (name: string) => ask(comparedStatementOf(panel(name), days, false, timeZone));
  const perDay = await compared('days');
  const revenue = await compared('revenue');
  const products = await ask(statementOf(panel('products'), days, timeZone));
  const open = await ask(statementOf(panel('open'), wishDays, timeZone));
  const neverBought = await ask(statementOf(NEVER_BOUGHT, wishDays, timeZone));
  const wished = products.map((row) => productIn(row, 'wishers', Number(row['change'])));
  return {
    days,
    before,
    wishDays,
    figures: [...figuresOf(perDay, days.from), ...revenueOf(revenue, days.from)],
    mostWished: wished.slice(0, MOST_WISHED),
    rising: wished
      .filter(({ change = 0 }) => change > 0)
      .toSorted((a, b) => (b.change ?? 0) - (a.change ?? 0))
      .slice(0, LONGEST),
    backInStock: open
      .filter((row) => row['part'] === 'product' && row['in_stock_now'] === true)
      .map((row) => productIn(row, 'out_of_stock_when_wished'))
      .filter(({ n }) => n > 0)
      .toSorted((a, b) => b.n - a.n)
      .slice(0, LONGEST),
    neverBought: neverBought.map((row) => productIn(row, 'never_bought')),
  };
}

function productIn(row: Row, n: string, change?: number): Product {
  const handle = String(row['product_handle'] ?? '');
  const title = String(row['product_title'] || handle || row['product_id'] || 'Unknown');
  return { title, handle, n: Number(row[n]), ...(change === undefined ? {} : { change }) };
}

const FIGURES = {
  visits: 'Visits',
  wishes: 'Added to a wishlist',
  removals: 'Removed from a wishlist',
  carts: 'Moved to the cart',
  orders: 'Orders',
} as const;

function sums(rows: readonly Row[], from: string, key: string): Pick<Figure, 'now' | 'before'> {
  let [now, before] = [0, 0];
  for (const row of rows)
    if (String(row['day']) >= from) now += Number(row[key]);
    else before += Number(row[key]);
  return { now, before };
}

function figuresOf(rows: readonly Row[], from: string): Figure[] {
  return Object.entries(FIGURES).map(([key, name]) => ({ name, ...sums(rows, from, key) }));
}

function revenueOf(rows: readonly Row[], from: string): Figure[] {
  const currencies = [...new Set(rows.map(({ currency }) => String(currency)))].sort();
  return currencies.map((currency) => {
    const own = rows.filter((row) => row['currency'] === currency);
    return { name: 'Revenue', currency, ...sums(own, from, 'revenue') };
  });
}
