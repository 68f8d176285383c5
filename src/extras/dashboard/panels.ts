// The statement of each panel, over the views of docs/analysts.md. No SQL comes from the browser.
//
// The panel of a question contains the SELECT of its view, because ClickHouse plans a parameterized view twice.

import { definitionOf } from '../../clickhouse/views.js';
import { fitsCharacters, MAX_HANDLE_CHARACTERS } from '../../identity-rules.js';
import { largestOf, summed } from './largest.js';

export interface Panel {
  readonly name: string;
  readonly title: string;
  /** `{from:Date}`, `{to:Date}`: first and last day. `{last_day}`: last complete day. `{time_zone}`: SHOP_TIMEZONE. */
  readonly sql: string;
  /** If true, the panel has one row per day, and the page also asks for the period before. */
  readonly isCompared?: true;
  /** Names of the parameters, which the statement has as `{<name>:String}`. */
  readonly parameters?: readonly string[];
}

export const IN_TIME =
  'occurred_at >= toDateTime64(toDate({from:Date}), 3, {time_zone}) AND occurred_at < toDateTime64(toDate({to:Date}) + 1, 3, {time_zone})';

export const PANELS: readonly Panel[] = [
  {
    name: 'days',
    title: 'Visits, wishes, carts and orders by day',
    isCompared: true,
    sql: `SELECT day, sum(visits) AS visits, sum(wishes) AS wishes, sum(carts) AS carts, sum(orders) AS orders
FROM
(
    SELECT day, visits, 0 AS wishes, 0 AS carts, 0 AS orders
    FROM visits_per_day
    WHERE day BETWEEN {from:Date} AND {to:Date}
    UNION ALL
    SELECT toDate(occurred_at, {time_zone}) AS day, 0, countIf(type = 'add'), countIf(type = 'moveToCart'), 0
    FROM events
    WHERE ${IN_TIME}
    GROUP BY day
    UNION ALL
    SELECT toDate(occurred_at, {time_zone}) AS day, 0, 0, 0, uniqExact(order_id)
    FROM purchases
    WHERE ${IN_TIME} AND NOT test
    GROUP BY day
)
GROUP BY day
ORDER BY day`,
  },
  {
    name: 'revenue',
    title: 'Revenue by day and currency',
    isCompared: true,
    sql: `SELECT toDate(occurred_at, {time_zone}) AS day, currency, uniqExact(order_id) AS orders, sum(ifNull(amount, 0)) AS revenue
FROM purchases
WHERE ${IN_TIME} AND NOT test
GROUP BY day, currency
ORDER BY day, currency`,
  },
  {
    name: 'funnel',
    title: 'From visit to purchase',
    sql: definitionOf('shop_funnel'),
  },
  {
    name: 'products',
    title: 'Most wished',
    // One statement answers wish_rate and momentum. It reads the steps once, and took two thirds of the time that two
    // statements took.
    sql: `SELECT max(wished.product_id) AS product_id, wished.product_handle AS product_handle, max(wished.product_title) AS product_title,
    any(looked.visitors) AS visitors, sum(wished.wishers) AS wishers, if(visitors = 0, NULL, wishers / visitors) AS wish_rate,
    sum(wished.last_7) AS last_7_days, sum(wished.before_7) AS the_7_before, toInt64(last_7_days) - toInt64(the_7_before) AS change,
    count() OVER () AS all_rows
FROM
(
    SELECT products.product_id AS product_id, products.product_handle AS product_handle, products.product_title AS product_title,
        steps.wishers AS wishers, steps.last_7 AS last_7, steps.before_7 AS before_7
    FROM
    (
        SELECT product,
            uniqExactIf(visitor, occurred_at >= toDateTime64(toDate({from:Date}), 3, {time_zone})) AS wishers,
            uniqExactIf(visitor, occurred_at >= toDateTime64({last_day} - 6, 3, {time_zone}) AND occurred_at < toDateTime64({last_day} + 1, 3, {time_zone})) AS last_7,
            uniqExactIf(visitor, occurred_at >= toDateTime64({last_day} - 13, 3, {time_zone}) AND occurred_at < toDateTime64({last_day} - 6, 3, {time_zone})) AS before_7
        FROM steps_by_visitor
        WHERE step = 'add' AND occurred_at >= toDateTime64(least(toDate({from:Date}), {last_day} - 13), 3, {time_zone}) AND occurred_at < toDateTime64(toDate({to:Date}) + 1, 3, {time_zone})
        GROUP BY product
        HAVING wishers > 0
    ) AS steps
    LEFT ANY JOIN products_by_number AS products ON products.product = steps.product
) AS wished
LEFT ANY JOIN
(
    SELECT product_handle, uniqCombinedMerge(14)(visitors_sketch) AS visitors
    FROM visitors_per_day
    WHERE day BETWEEN {from:Date} AND {to:Date}
    GROUP BY product_handle
) AS looked ON looked.product_handle = wished.product_handle
GROUP BY product_handle, if(product_handle = '', wished.product_id, '')
ORDER BY wishers DESC, visitors DESC, product_handle
LIMIT 100`,
  },
  {
    name: 'sources',
    title: 'Where wishes are made',
    sql: largestOf(definitionOf('adds_by_source'), 'source', 'adds', {
      ...summed('adds', 'wishes'),
      // A visitor with two sources would count twice.
      wishers: 'if(count() = 1, any(named.wishers), NULL)',
      ...summed('carted', 'bought'),
      revenue: 'sumMap(named.revenue)',
    }),
  },
  {
    name: 'channels',
    title: 'Shares by channel',
    sql: largestOf(
      `SELECT channel, count() AS shares, uniqExactIf(share_code, share_code != '') AS share_links
FROM events
WHERE type = 'share' AND ${IN_TIME}
GROUP BY channel`,
      'channel',
      'shares',
      { ...summed('shares'), share_links: 'if(count() = 1, any(named.share_links), NULL)' },
    ),
  },
  {
    name: 'devices',
    title: 'Visits by device',
    sql: largestOf(
      `SELECT device, sum(visits) AS visits
FROM visits_per_day
WHERE day BETWEEN {from:Date} AND {to:Date}
GROUP BY device`,
      'device',
      'visits',
      summed('visits'),
    ),
  },
  {
    name: 'stock',
    title: 'Out of stock, or dearer, when it was wished',
    sql: `SELECT drops.product_id AS product_id, any(drops.product_handle) AS product_handle, any(drops.product_title) AS product_title,
    sum(drops.wished_out_of_stock) AS out_of_stock_when_wished, max(drops.in_stock_now) AS in_stock_now,
    uniqExactIf(drops.variant_id, drops.in_stock_now) AS variants_in_stock, uniqExact(drops.variant_id) AS variants,
    sum(drops.wished_dearer) AS dearer_when_wished,
    minMapIf(map(drops.currency, assumeNotNull(drops.price_now)), drops.price_now IS NOT NULL) AS prices_now,
    maxMapIf(map(drops.currency, assumeNotNull(drops.price_now)), drops.price_now IS NOT NULL) AS highest_prices_now,
    count() OVER () AS all_rows
FROM
(
${definitionOf('restock_and_price_drops')}
) AS drops
GROUP BY product_id
ORDER BY out_of_stock_when_wished + dearer_when_wished DESC, product_id
LIMIT 100`,
  },
];

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const LONGEST = 1_100;
/** A range may be this early and late, so that ClickHouse's type Date also holds the period before it. */
const [EARLIEST, LATEST] = [Date.UTC(1975, 0), Date.UTC(2147, 11, 31)];

export interface Range {
  readonly from: string;
  readonly to: string;
}

export function readRange(from: string, to: string): Range | string {
  const [first, last] = [dayOf(from), dayOf(to)];
  if (first === undefined || last === undefined)
    return 'The first and the last day are days like 2026-03-01.';
  if (first > last) return 'The first day is after the last one.';
  if (first < EARLIEST || last > LATEST) return 'Days are from 1975-01-01 to 2147-12-31.';
  const days = (last - first) / 86_400_000 + 1;
  if (days > LONGEST)
    return `${written(days)} days are too many at once: ${written(LONGEST)} is the limit. Choose a later first day.`;
  return { from, to };
}

const written = (n: number): string => n.toLocaleString('en');

function dayOf(text: string): number | undefined {
  const ms = DATE.test(text) ? Date.parse(text) : Number.NaN;
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text) ? ms : undefined;
}

function daysBefore({ from, to }: Range): Range {
  const before = 2 * Date.parse(from) - Date.parse(to) - 86_400_000;
  return { from: new Date(before).toISOString().slice(0, 10), to };
}

/** The same dates a year ago; 28 February for the 29th. */
const yearBefore = (day: string) =>
  `${Number(day.slice(0, 4)) - 1}${day.slice(4).replace('-02-29', '-02-28')}`;

/** A panel that is compared has the days of both times: those of the time before, or of the same time a year ago. */
export function comparedStatementOf(
  panel: Panel,
  range: Range,
  withYearAgo: boolean,
  timeZone = 'UTC',
): string {
  if (panel.isCompared === undefined) return statementOf(panel, range, timeZone);
  if (!withYearAgo) return statementOf(panel, daysBefore(range), timeZone);
  const ago = { from: yearBefore(range.from), to: yearBefore(range.to) };
  if (ago.to >= range.from) return statementOf(panel, { from: ago.from, to: range.to }, timeZone);
  const both = [ago, range].map((days) => `SELECT *\nFROM\n(\n${statementOf(panel, days, timeZone)}\n)`);
  return both.join('\nUNION ALL\n');
}

function lastDayOver(to: string, timeZone: string): string {
  const today = new Intl.DateTimeFormat('sv', { timeZone }).format(new Date());
  const yesterday = new Date(Date.parse(today) - 86_400_000).toISOString().slice(0, 10);
  return to < yesterday ? to : yesterday;
}

export function readParameters({ parameters = [] }: Panel, query: URLSearchParams) {
  const values = parameters.map((name) => [name, query.get(name) ?? ''] as const);
  return values.every(([, text]) => text !== '' && fitsCharacters(text, MAX_HANDLE_CHARACTERS))
    ? Object.fromEntries(values)
    : undefined;
}

/** Puts parameters into a statement for display. ClickHouse gets them separately. */
export function shownWith(sql: string, parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters).reduce(
    (text, [name, value]) =>
      text.replaceAll(`{${name}:String}`, () => `'${value.replace(/[\\']/g, '\\$&')}'`),
    sql,
  );
}

export function statementOf({ sql }: Panel, { from, to }: Range, timeZone = 'UTC'): string {
  return sql
    .replace(/\{from:(Date|String)\}/g, `'${from}'`)
    .replace(/\{to:(Date|String)\}/g, `'${to}'`)
    .replaceAll('{last_day}', `toDate('${lastDayOver(to, timeZone)}')`)
    .replaceAll('{time_zone}', `'${timeZone}'`);
}
