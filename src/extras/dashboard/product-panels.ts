// The panels of a product's page, and the product search. Visits name a product only by handle. Wishes, carts and
// purchases name it by id, and count here if the page's handle is its latest. Browsers' texts are ClickHouse
// parameters, never SQL.

import { largestOf, summed } from './largest.js';
import { IN_TIME, type Panel } from './panel.js';
import { OPEN_FIGURES, pricedItems } from './wish-panels.js';

const ITS_IDS = 'SELECT product_id FROM products WHERE product_handle = {handle:String}';

const HANDLE = ['handle'] as const;

export const PRODUCT_PANELS: readonly Panel[] = [
  {
    name: 'product',
    title: 'Visitors and wishers of a product',
    parameters: HANDLE,
    sql: `SELECT known.product_title AS product_title, known.is_known AS is_known, looked.visits AS visits, looked.visitors AS visitors,
    wished.wishers AS wishers, if(visitors = 0, NULL, wishers / visitors) AS wish_rate, nullIf(known.image, '') AS image
FROM
(
    SELECT max(product_title) AS product_title, max(image) AS image, count() > 0 AS is_known
    FROM products
    WHERE product_handle = {handle:String}
) AS known
CROSS JOIN
(
    SELECT sum(visits) AS visits, uniqCombinedMerge(14)(visitors_sketch) AS visitors
    FROM visitors_per_day
    WHERE product_handle = {handle:String} AND day BETWEEN {from:Date} AND {to:Date}
) AS looked
CROSS JOIN
(
    SELECT uniqExact(visitor) AS wishers
    FROM steps_by_visitor
    WHERE step = 'add' AND product_id IN (${ITS_IDS})
        AND ${IN_TIME}
) AS wished`,
  },
  {
    name: 'product_days',
    title: 'Visits, visitors and wishes of a product by day',
    isCompared: true,
    parameters: HANDLE,
    sql: `SELECT day, sum(visits) AS visits, sum(visitors) AS visitors, sum(wishes) AS wishes
FROM
(
    SELECT day, visits, visitors, 0 AS wishes
    FROM visitors_per_day
    WHERE product_handle = {handle:String} AND day BETWEEN {from:Date} AND {to:Date}
    UNION ALL
    SELECT toDate(occurred_at, {time_zone}) AS day, 0, 0, count()
    FROM events
    WHERE type = 'add' AND product_id IN (${ITS_IDS})
        AND ${IN_TIME}
    GROUP BY day
)
GROUP BY day
ORDER BY day`,
  },
  {
    name: 'product_sources',
    title: 'Where the wishes for a product are made',
    parameters: HANDLE,
    sql: largestOf(
      `SELECT source, count() AS wishes, countIf(carted_at IS NOT NULL) AS carted, countIf(notEmpty(bought)) AS bought
FROM wishes_followed(from = {from:Date}, to = {to:Date})
WHERE product IN (SELECT product FROM products_by_number WHERE product_handle = {handle:String})
GROUP BY source`,
      'source',
      'wishes',
      summed('wishes', 'carted', 'bought'),
    ),
  },
  {
    name: 'product_open',
    title: 'Open wishes for a product, by variant',
    parameters: HANDLE,
    sql: `SELECT if(grouping(variant) = 1, 'all', 'variant') AS part, if(part = 'all', '', any(variant_id)) AS variant_id,
        ${OPEN_FIGURES},
        if(part = 'all', NULL, any(in_stock)) AS in_stock_now, minMapIf(map(currency, price_now), is_priced) AS prices_now
FROM
(
    ${pricedItems('items.product IN (SELECT product FROM products_by_number WHERE product_handle = {handle:String})')}
)
GROUP BY GROUPING SETS ((variant), ())
ORDER BY part, wishers DESC, items DESC, variant_id
LIMIT 1000`,
  },
  {
    name: 'product_devices',
    title: 'Visits of a product by device',
    parameters: HANDLE,
    sql: largestOf(
      `SELECT device, sum(visits) AS visits
FROM visits_per_day
WHERE product_handle = {handle:String} AND day BETWEEN {from:Date} AND {to:Date}
GROUP BY device`,
      'device',
      'visits',
      summed('visits'),
    ),
  },
  {
    name: 'product_orders',
    title: 'Carts and purchases of a product, among all',
    parameters: HANDLE,
    sql: `SELECT carted.carts AS carts, carted.all_carts AS all_carts, bought.orders AS orders, bought.all_orders AS all_orders,
    bought.quantity AS quantity, bought.revenue AS revenue, bought.all_revenue AS all_revenue
FROM
(
    SELECT countIf(product_id IN (${ITS_IDS})) AS carts, count() AS all_carts
    FROM events
    WHERE type = 'moveToCart' AND ${IN_TIME}
) AS carted
CROSS JOIN
(
    SELECT uniqExactIf(order_id, product_handle = {handle:String}) AS orders, uniqExact(order_id) AS all_orders,
        sumIf(lines.quantity, product_handle = {handle:String}) AS quantity,
        sumMapIf(map(currency, ifNull(amount, 0)), product_handle = {handle:String}) AS revenue,
        sumMap(map(currency, ifNull(amount, 0))) AS all_revenue
    FROM purchases AS lines
    WHERE NOT test AND ${IN_TIME}
) AS bought`,
  },
  {
    name: 'product_prices',
    title: 'Price and stock of a product, as wishes told them',
    parameters: HANDLE,
    // Shows the last wish of a day, if its price or stock differs from that of the day before.
    sql: `SELECT day, variant_id, price, currency, in_stock
FROM
(
    SELECT day, variant_id, price, currency, in_stock,
        [toString(price), toString(in_stock)] AS told,
        lagInFrame(told) OVER (PARTITION BY variant_id, currency ORDER BY day) AS told_before
    FROM
    (
        SELECT toDate(occurred_at, {time_zone}) AS day, variant_id, currency,
            argMax(wishes.price, occurred_at) AS price,
            argMax(wishes.inventory_available, occurred_at) AS in_stock
        FROM events AS wishes
        WHERE type = 'add' AND product_id IN (${ITS_IDS})
            AND ${IN_TIME}
            AND (wishes.price IS NOT NULL OR wishes.inventory_available IS NOT NULL)
        GROUP BY day, variant_id, currency
    )
)
WHERE told != told_before
ORDER BY day DESC, variant_id, currency
LIMIT 1000`,
  },
  {
    name: 'search',
    title: 'Products that were looked at or wished for, by title or handle',
    parameters: ['text'],
    sql: `SELECT found.product_handle AS product_handle, products.product_title AS product_title, found.visits AS visits
FROM
(
    SELECT product_handle, sum(visits) AS visits
    FROM
    (
        SELECT product_handle, visits
        FROM visits_per_day
        WHERE day BETWEEN {from:Date} AND {to:Date}
        UNION ALL
        SELECT product_handle, 0
        FROM products
        WHERE product_handle != '' AND product_id IN (SELECT product_id FROM events WHERE type = 'add' AND ${IN_TIME})
    )
    GROUP BY product_handle
) AS found
LEFT ANY JOIN products ON products.product_handle = found.product_handle
WHERE positionCaseInsensitiveUTF8(product_title, {text:String}) > 0 OR positionCaseInsensitiveUTF8(product_handle, {text:String}) > 0
ORDER BY visits DESC, product_handle
LIMIT 8`,
  },
];
