// Panels of two sections each, whose one statement reads the steps once: results of wishes (funnel and sources), and open
// wishes (their value, and products that were out of stock or dearer).
//
// They contain the SELECT of their view, because ClickHouse plans a parameterized view twice. `part` is 'all' in the row
// of the whole shop, whose visitors each count once.

import { definitionOf } from '../../clickhouse/views.js';
import { IN_TIME, type Panel } from './panel.js';

const LARGEST = 20;
const PRODUCTS = 100;

/** Variants with their stock, and their prices by currency, so that one join finds both. */
const VARIANTS = `SELECT product, variant, any(variant_id) AS variant_id, any(in_stock) AS in_stock,
        CAST((groupArrayIf(currency, price_now IS NOT NULL), groupArrayIf(toDecimal128(assumeNotNull(price_now), 2), price_now IS NOT NULL)), 'Map(String, Decimal(38, 2))') AS prices
    FROM variants_by_number
    GROUP BY product, variant`;

/** Open wishes with the latest price of their variant in their currency. @param where condition on `items` */
export const pricedItems = (
  where = '1',
) => `SELECT items.visitor AS visitor, items.is_customer AS is_customer, items.product AS product, items.variant AS variant,
        variants.variant_id AS variant_id, items.currency AS currency, variants.in_stock AS in_stock,
        mapContains(variants.prices, items.currency) AS is_priced, variants.prices[items.currency] AS price_now,
        items.was_out_of_stock AS was_out_of_stock, is_priced AND ifNull(items.price > price_now, false) AS was_dearer, items.quantity AS quantity
    FROM
    (
${definitionOf('open_items')}
    ) AS items
    LEFT ANY JOIN
    (
    ${VARIANTS}
    ) AS variants ON variants.product = items.product AND variants.variant = items.variant
    WHERE ${where}`;

export const OPEN_FIGURES = `uniqExact(visitor) AS wishers, uniqExactIf(visitor, is_customer) AS customers, uniqExactIf(visitor, NOT is_customer) AS guests,
        count() AS items, sumMapIf(map(currency, quantity * price_now), is_priced) AS value`;

export const WISH_PANELS: readonly Panel[] = [
  {
    name: 'wishes',
    title: 'What became of wishes: of all, and by source',
    // It has the figures of shop_funnel and adds_by_source.
    sql: `SELECT followed.part AS part, followed.source AS source, any(looked.visits) AS visits, any(looked.visitors) AS visitors, sum(followed.wishes) AS wishes,
    if(count() = 1, any(followed.wishers), NULL) AS wishers, if(count() = 1, any(followed.carters), NULL) AS carters, if(count() = 1, any(followed.buyers), NULL) AS buyers,
    sum(followed.carted) AS carted, sum(followed.bought) AS bought, sum(followed.removed) AS removed, sumMap(followed.revenue) AS revenue
FROM
(
    SELECT sum(visits) AS visits, uniqCombinedMerge(14)(visitors_sketch) AS visitors, 1 AS one
    FROM shop_visitors_per_day
    WHERE day BETWEEN {from:Date} AND {to:Date}
) AS looked
LEFT JOIN
(
    SELECT if(is_all, 'all', 'source') AS part, if(is_all OR place < ${LARGEST}, word, NULL) AS source, wishes, wishers, carters, buyers, carted, bought, removed, revenue, 1 AS one
    FROM
    (
        SELECT grouping(first_source) = 1 AS is_all, CAST(first_source, 'String') AS word, count() AS wishes, uniqExact(visitor) AS wishers,
            uniqExactIf(visitor, is_carted) AS carters, uniqExactIf(visitor, notEmpty(lines)) AS buyers,
            countIf(is_carted) AS carted, countIf(notEmpty(lines)) AS bought, countIf(is_removed) AS removed,
            sumMap(CAST(lines, 'Map(String, Decimal(38, 2))')) AS revenue,
            row_number() OVER (PARTITION BY is_all ORDER BY wishes DESC, word) AS place
        FROM
        (
            SELECT visitor, product,
                minIf(occurred_at, step = 'add' AND occurred_at < toDateTime64(toDate({to:Date}) + 1, 3, {time_zone})) AS wished_at,
                argMinIf(source, occurred_at, step = 'add' AND occurred_at < toDateTime64(toDate({to:Date}) + 1, 3, {time_zone})) AS first_source,
                arrayExists(at -> at >= wished_at AND at <= wished_at + INTERVAL 30 DAY, groupArrayIf(occurred_at, step = 'moveToCart')) AS is_carted,
                maxIf(occurred_at, step = 'remove') AS removed_at,
                removed_at > maxIf(occurred_at, step = 'add') AND removed_at <= wished_at + INTERVAL 30 DAY AS is_removed,
                arrayMap(line -> (line.2, line.3), arrayFilter(line -> line.1 >= wished_at AND line.1 <= wished_at + INTERVAL 30 DAY,
                    groupArrayIf((occurred_at, CAST(currency, 'String'), ifNull(amount, 0)), step = 'purchase'))) AS lines
            FROM steps_by_visitor
            WHERE step IN ('add', 'remove', 'moveToCart', 'purchase') AND occurred_at >= toDateTime64(toDate({from:Date}), 3, {time_zone})
                AND occurred_at < toDateTime64(toDate({to:Date}) + 32, 3, {time_zone})
            GROUP BY visitor, product
            HAVING wished_at != 0
        )
        GROUP BY GROUPING SETS ((first_source), ())
    )
) AS followed ON followed.one = looked.one
GROUP BY part, source
ORDER BY part, isNull(source), wishes DESC, source`,
  },
  {
    name: 'open',
    title: 'Open wishes: of all, and by product',
    // Products with most wishers, and products with most wishes while they were out of stock or dearer.
    sql: `SELECT open.part AS part, products.product_id AS product_id, products.product_handle AS product_handle, products.product_title AS product_title,
    open.wishers AS wishers, open.customers AS customers, open.guests AS guests, open.items AS items, open.value AS value,
    open.out_of_stock_when_wished AS out_of_stock_when_wished, open.in_stock_now AS in_stock_now, open.variants_in_stock AS variants_in_stock,
    open.variants AS variants, open.dearer_when_wished AS dearer_when_wished, open.prices_now AS prices_now, open.highest_prices_now AS highest_prices_now,
    open.all_rows AS all_rows, open.all_told AS all_told,
    nullIf(products.image, '') AS image
FROM
(
    SELECT if(grouping(product) = 1, 'all', 'product') AS part, product,
        ${OPEN_FIGURES},
        countIf(was_out_of_stock) AS out_of_stock_when_wished, countIf(was_dearer) AS dearer_when_wished,
        maxIf(in_stock, was_out_of_stock OR was_dearer) AS in_stock_now,
        uniqExactIf(variant, in_stock AND (was_out_of_stock OR was_dearer)) AS variants_in_stock, uniqExactIf(variant, was_out_of_stock OR was_dearer) AS variants,
        minMapIf(map(currency, price_now), is_priced AND (was_out_of_stock OR was_dearer)) AS prices_now,
        maxMapIf(map(currency, price_now), is_priced AND (was_out_of_stock OR was_dearer)) AS highest_prices_now,
        out_of_stock_when_wished + dearer_when_wished AS told,
        row_number() OVER (PARTITION BY part ORDER BY wishers DESC, items DESC, product) AS place,
        row_number() OVER (PARTITION BY part ORDER BY told DESC, product) AS told_place,
        count() OVER (PARTITION BY part) AS all_rows, countIf(told > 0) OVER (PARTITION BY part) AS all_told
    FROM
    (
    ${pricedItems()}
    )
    GROUP BY GROUPING SETS ((product), ())
) AS open
LEFT ANY JOIN products_by_number AS products ON products.product = open.product
WHERE open.place <= ${PRODUCTS} OR open.told > 0 AND open.told_place <= ${PRODUCTS}
ORDER BY part, wishers DESC, items DESC, product_id`,
  },
  {
    name: 'shares',
    title: 'Shared lists: of all, and by channel',
    sql: `SELECT part, if(part = 'all' OR place < ${LARGEST}, word, NULL) AS channel, sum(rows.shares) AS shares,
    if(count() = 1, any(rows.links), NULL) AS share_links, sum(rows.opens) AS opens, sum(rows.opened_links) AS opened_links
FROM
(
    SELECT if(grouping(sent.channel) = 1, 'all', 'channel') AS part, CAST(sent.channel, 'String') AS word, countIf(NOT is_open) AS shares,
        uniqExactIf(share_code, NOT is_open AND share_code != '') AS links, if(part = 'all', countIf(is_open), 0) AS opens,
        if(part = 'all', uniqExactIf(share_code, is_open), 0) AS opened_links, row_number() OVER (PARTITION BY part ORDER BY shares DESC, word) AS place
    FROM
    (
        SELECT channel, share_code, false AS is_open
        FROM events
        WHERE type = 'share' AND ${IN_TIME}
        UNION ALL
        SELECT '', share_code, true
        FROM share_opens
        WHERE ${IN_TIME}
    ) AS sent
    GROUP BY GROUPING SETS ((channel), ())
    HAVING part = 'all' OR shares > 0
) AS rows
GROUP BY part, channel
ORDER BY part, isNull(channel), shares DESC, channel`,
  },
];
