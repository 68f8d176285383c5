// What the dashboard asks: a statement for each panel, over the views of docs/analysts.md. The browser names a panel and
// two days; no text of a query comes from it.

export interface Panel {
  readonly name: string;
  readonly title: string;
  /** One SELECT; `{from:Date}` and `{to:Date}` are the first and the last day, UTC. */
  readonly sql: string;
}

export const PANELS: readonly Panel[] = [
  {
    name: 'days',
    title: 'Visits, wishes, carts and orders by day',
    sql: `SELECT day, sum(visits) AS visits, sum(wishes) AS wishes, sum(carts) AS carts, sum(orders) AS orders
FROM
(
    SELECT day, visits, 0 AS wishes, 0 AS carts, 0 AS orders
    FROM visits_per_day
    WHERE day BETWEEN {from:Date} AND {to:Date}
    UNION ALL
    SELECT toDate(occurred_at) AS day, 0, countIf(type = 'add'), countIf(type = 'moveToCart'), 0
    FROM events
    WHERE occurred_at >= {from:Date} AND occurred_at < toDate({to:Date}) + 1
    GROUP BY day
    UNION ALL
    SELECT toDate(occurred_at) AS day, 0, 0, 0, uniqExact(order_id)
    FROM purchases
    WHERE occurred_at >= {from:Date} AND occurred_at < toDate({to:Date}) + 1 AND NOT test
    GROUP BY day
)
GROUP BY day
ORDER BY day`,
  },
  {
    name: 'revenue',
    title: 'Revenue by day and currency',
    sql: `SELECT toDate(occurred_at) AS day, currency, uniqExact(order_id) AS orders, sum(ifNull(amount, 0)) AS revenue
FROM purchases
WHERE occurred_at >= {from:Date} AND occurred_at < toDate({to:Date}) + 1 AND NOT test
GROUP BY day, currency
ORDER BY day, currency`,
  },
  {
    name: 'funnel',
    title: 'From visit to purchase',
    sql: `SELECT visits, visitors, wishers, carters, buyers, revenue
FROM shop_funnel(from = {from:Date}, to = {to:Date})`,
  },
  {
    name: 'products',
    title: 'Most wished',
    sql: `SELECT rate.product_id AS product_id, rate.product_handle AS product_handle, rate.product_title AS product_title,
    rate.visitors AS visitors, rate.wishers AS wishers, rate.wish_rate AS wish_rate,
    momentum.wishers AS last_7_days, momentum.wishers_before AS the_7_before, momentum.change AS change
FROM wish_rate(from = {from:Date}, to = {to:Date}) AS rate
LEFT ANY JOIN momentum(until = {to:Date}) AS momentum ON momentum.product_id = rate.product_id AND rate.product_id != ''
WHERE rate.wishers > 0
ORDER BY wishers DESC, visitors DESC, product_handle
LIMIT 100`,
  },
  {
    name: 'sources',
    title: 'Where wishes are made',
    sql: `SELECT source, adds, wishes, wishers, carted, bought, revenue
FROM adds_by_source(from = {from:Date}, to = {to:Date})`,
  },
  {
    name: 'channels',
    title: 'Shares by channel',
    sql: `SELECT channel, count() AS shares, uniqExactIf(share_code, share_code != '') AS share_links
FROM events
WHERE type = 'share' AND occurred_at >= {from:Date} AND occurred_at < toDate({to:Date}) + 1
GROUP BY channel
ORDER BY shares DESC, channel`,
  },
  {
    name: 'devices',
    title: 'Visits by device',
    sql: `SELECT device, sum(visits) AS visits
FROM visits_per_day
WHERE day BETWEEN {from:Date} AND {to:Date}
GROUP BY device
ORDER BY visits DESC, device`,
  },
  {
    name: 'stock',
    title: 'Wished and out of stock, or cheaper now',
    sql: `SELECT product_id, variant_id, product_handle, product_title, wished_out_of_stock, in_stock_now, wished_dearer,
    price_now, currency
FROM restock_and_price_drops(from = {from:Date}, to = {to:Date})
LIMIT 100`,
  },
];

const DATE = /^\d{4}-\d{2}-\d{2}$/;
/** Days that one panel may span. */
const LONGEST = 1_100;

export interface Range {
  readonly from: string;
  readonly to: string;
}

/** undefined where they are not two days in order. */
export function readRange(from: string, to: string): Range | undefined {
  const [first, last] = [from, to].map((text) => (DATE.test(text) ? Date.parse(text) : Number.NaN));
  if (first === undefined || last === undefined || !(first <= last)) return undefined;
  if (first < Date.UTC(1971, 0) || last >= Date.UTC(2148, 0)) return undefined; // what a Date of ClickHouse holds
  if ((last - first) / 86_400_000 >= LONGEST) return undefined;
  // 2026-02-30 would be read as March.
  return [first, last].every((at, i) => new Date(at).toISOString().startsWith([from, to][i] as string))
    ? { from, to }
    : undefined;
}

/** The statement as it is run, and as it may be run in any client. */
export function statementOf({ sql }: Panel, { from, to }: Range): string {
  return sql.replaceAll('{from:Date}', `'${from}'`).replaceAll('{to:Date}', `'${to}'`);
}
