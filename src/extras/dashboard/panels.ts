// The statement of each panel of the overview, over the views of docs/analysts.md. No SQL comes from the browser.

import { largestOf, summed } from './largest.js';
import { IN_TIME, type Panel } from './panel.js';
import { WISH_PANELS } from './wish-panels.js';

export const PANELS: readonly Panel[] = [
  {
    name: 'days',
    title: 'Visits, wishes, removals, carts and orders by day',
    isCompared: true,
    sql: `SELECT day, sum(visits) AS visits, sum(wishes) AS wishes, sum(removals) AS removals, sum(carts) AS carts, sum(orders) AS orders
FROM
(
    SELECT day, visits, 0 AS wishes, 0 AS removals, 0 AS carts, 0 AS orders
    FROM visits_per_day
    WHERE day BETWEEN {from:Date} AND {to:Date}
    UNION ALL
    SELECT toDate(occurred_at, {time_zone}) AS day, 0, countIf(type = 'add'), countIf(type = 'remove'), countIf(type = 'moveToCart'), 0
    FROM events
    WHERE ${IN_TIME}
    GROUP BY day
    UNION ALL
    SELECT toDate(occurred_at, {time_zone}) AS day, 0, 0, 0, 0, uniqExact(order_id)
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
  ...WISH_PANELS,
  {
    name: 'products',
    title: 'Most wished',
    // One statement answers wish_rate and momentum. It reads the steps once, and took two thirds of the time that two
    // statements took.
    sql: `SELECT max(wished.product_id) AS product_id, wished.product_handle AS product_handle, max(wished.product_title) AS product_title,
    any(looked.visitors) AS visitors, sum(wished.wishers) AS wishers, if(visitors = 0, NULL, wishers / visitors) AS wish_rate,
    sum(wished.last_7) AS last_7_days, sum(wished.before_7) AS the_7_before, toInt64(last_7_days) - toInt64(the_7_before) AS change,
    count() OVER () AS all_rows, nullIf(max(wished.image), '') AS image
FROM
(
    SELECT products.product_id AS product_id, products.product_handle AS product_handle, products.product_title AS product_title, products.image AS image,
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
];
