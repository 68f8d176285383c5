-- The views that the questions are made of.

-- profile_merges as hashes
CREATE OR REPLACE VIEW {database}.visitor_merges {on_cluster} AS
SELECT
    old,
    present
FROM {database}.profile_merges_stored FINAL;

-- Events and purchases of each visitor: the rows behind the questions
-- visitor is a hash of the visitor's present profile: sipHash64(profile_id) of events_by_visitor. product and variant are hashes of
-- product_id and variant_id. Numbers are joined faster than texts, and grouped several times as fast. ARRAY JOIN adds no row, but
-- hides the number of rows, so that ClickHouse puts the merges into the join's hash table: the steps there take a third more CPU.
CREATE OR REPLACE VIEW {database}.steps_by_visitor {on_cluster} AS
SELECT
    rows.occurred_at AS occurred_at,
    rows.step AS step,
    if(merges.present = 0, rows.visitor, merges.present) AS visitor,
    rows.is_customer OR merges.present != 0 AS is_customer,
    rows.product_id AS product_id,
    rows.variant_id AS variant_id,
    rows.product AS product,
    rows.variant AS variant,
    rows.source AS source,
    rows.order_id AS order_id,
    rows.currency AS currency,
    rows.inventory_available AS inventory_available,
    rows.quantity AS quantity,
    rows.price AS price,
    rows.amount AS amount
FROM
(
    SELECT
        occurred_at,
        step,
        visitor,
        is_customer,
        product_id,
        variant_id,
        CAST(sipHash64(product_id), 'UInt64') AS product,
        CAST(sipHash64(variant_id), 'UInt64') AS variant,
        source,
        '' AS order_id,
        currency,
        inventory_available,
        quantity,
        price,
        CAST(NULL, 'Nullable(Decimal(18, 2))') AS amount
    FROM {database}.steps_stored FINAL
    ARRAY JOIN [0] AS one
    WHERE step != 'share'
    UNION ALL
    SELECT
        occurred_at,
        CAST('purchase', 'LowCardinality(String)'),
        visitor,
        substring(profile_id, position(profile_id, '.') + 1, 1) = 'c',
        CAST(product_id, 'LowCardinality(String)'),
        CAST(variant_id, 'LowCardinality(String)'),
        CAST(sipHash64(product_id), 'UInt64'),
        CAST(sipHash64(variant_id), 'UInt64'),
        CAST('', 'LowCardinality(String)'),
        order_id,
        currency,
        CAST(NULL, 'Nullable(Bool)'),
        quantity,
        price,
        amount
    FROM {database}.order_lines
    WHERE NOT test
) AS rows
LEFT ANY JOIN {database}.visitor_merges AS merges ON merges.old = rows.visitor;

-- Visits as hashes, which are grouped fast
CREATE OR REPLACE VIEW {database}.looks_by_visitor {on_cluster} AS
SELECT
    rows.occurred_at AS occurred_at,
    if(merges.present = 0, rows.visitor, merges.present) AS visitor,
    rows.product AS product
FROM
(
    SELECT
        occurred_at,
        visitor,
        CAST(sipHash64(product_handle), 'UInt64') AS product
    FROM {database}.visits_stored FINAL
) AS rows
LEFT ANY JOIN {database}.visitor_merges AS merges ON merges.old = rows.visitor;

-- Each visitor's first wish for a product in the period, and what followed within 30 days
-- visitor and product are hashes, as in steps_by_visitor. carted_at is NULL if the product was not moved to the cart. bought has time,
-- order (a hash of its id), currency, quantity and amount of each order line with that product, in one array, because five arrays take
-- half as much time again.
CREATE OR REPLACE VIEW {database}.wishes_followed {on_cluster} AS
SELECT
    visitor,
    product,
    minIf(occurred_at, step = 'add' AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone})) AS wished_at,
    argMinIf(source, occurred_at, step = 'add' AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone})) AS source,
    arrayFilter(
        at -> at >= wished_at AND at <= wished_at + INTERVAL 30 DAY,
        groupArrayIf(occurred_at, step = 'moveToCart')) AS carted,
    if(empty(carted), NULL, arrayMin(carted)) AS carted_at,
    arrayFilter(
        line -> line.1 >= wished_at AND line.1 <= wished_at + INTERVAL 30 DAY,
        groupArrayIf(
            (occurred_at, sipHash64(order_id), CAST(currency, 'String'), quantity, ifNull(amount, 0)),
            step = 'purchase')) AS bought
FROM {database}.steps_by_visitor
WHERE step IN ('add', 'moveToCart', 'purchase') AND occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 32, 3, {time_zone}) AND {in_order}
GROUP BY visitor, product
HAVING wished_at != 0;

-- Each open wish: wished for in the period, and neither removed, moved to the cart nor bought since
-- A visitor has one for each variant of a product. currency, quantity, price and was_out_of_stock are from the last wish.
CREATE OR REPLACE VIEW {database}.open_items {on_cluster} AS
SELECT
    visitor,
    is_customer,
    product,
    item.2 AS variant,
    item.1 AS wished_at,
    CAST(item.3.1, 'String') AS currency,
    item.3.2 AS quantity,
    item.3.3 AS price,
    item.3.4 AS was_out_of_stock
FROM
(
    SELECT
        visitor,
        product,
        max(known.is_customer) AS is_customer,
        groupArrayIf((added_at, variant, last_add), added_at > ended_at AND added_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone})) AS items,
        max(bought_at) AS bought_at
    FROM
    (
        SELECT
            steps.visitor AS visitor,
            steps.product AS product,
            steps.variant AS variant,
            max(steps.is_customer) AS is_customer,
            maxIf(steps.occurred_at, steps.step = 'add') AS added_at,
            argMaxIf((steps.currency, steps.quantity, steps.price, ifNull(steps.inventory_available = false, false)), steps.occurred_at, steps.step = 'add') AS last_add,
            maxIf(steps.occurred_at, steps.step NOT IN ('add', 'purchase')) AS ended_at,
            maxIf(steps.occurred_at, steps.step = 'purchase') AS bought_at
        FROM {database}.steps_by_visitor AS steps
        WHERE steps.occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND {in_order}
        GROUP BY visitor, product, variant
        HAVING added_at > ended_at OR bought_at != 0
    ) AS known
    GROUP BY visitor, product
    HAVING notEmpty(items)
)
ARRAY JOIN items AS item
WHERE item.1 > bought_at;

-- Each product's visits, visitors and wishers in the period, and what followed within 30 days
-- revenue is a map from currency to amount.
CREATE OR REPLACE VIEW {database}.product_funnel {on_cluster} AS
SELECT
    product_id,
    product_handle,
    visits,
    visitors,
    wishers,
    carters,
    buyers,
    revenue
FROM
(
    SELECT
        max(rows.product_id) AS product_id,
        product_handle,
        sum(rows.visits) AS visits,
        sum(rows.visitors) AS visitors,
        sum(rows.wishers) AS wishers,
        sum(rows.carters) AS carters,
        sum(rows.buyers) AS buyers,
        sumMap(rows.revenue) AS revenue
    FROM
    (
        SELECT
            products.product_id AS product_id,
            '' AS unnamed,
            looked.product_handle AS product_handle,
            looked.visits AS visits,
            looked.visitors AS visitors,
            0 AS wishers,
            0 AS carters,
            0 AS buyers,
            CAST(map(), 'Map(String, Decimal(38, 2))') AS revenue
        FROM
        (
            SELECT
                product_handle,
                sum(visits) AS visits,
                uniqCombinedMerge(14)(visitors_sketch) AS visitors
            FROM {database}.visitors_per_day
            WHERE day BETWEEN {from:Date} AND {to:Date}
            GROUP BY product_handle
        ) AS looked
        LEFT ANY JOIN {database}.products AS products ON products.product_handle = looked.product_handle
        UNION ALL
        SELECT
            products.product_id AS product_id,
            if(products.product_handle = '', products.product_id, '') AS unnamed,
            products.product_handle AS product_handle,
            0 AS visits,
            0 AS visitors,
            wished.wishers AS wishers,
            wished.carters AS carters,
            wished.buyers AS buyers,
            wished.revenue AS revenue
        FROM
        (
            SELECT
                product,
                count() AS wishers,
                countIf(carted_at IS NOT NULL) AS carters,
                countIf(notEmpty(bought)) AS buyers,
                sumMap(CAST(arrayMap(line -> (line.3, line.5), bought), 'Map(String, Decimal(38, 2))')) AS revenue
            FROM {database}.wishes_followed(from = {from:String}, to = {to:String})
            GROUP BY product
        ) AS wished
        LEFT ANY JOIN {database}.products_by_number AS products ON products.product = wished.product
    ) AS rows
    GROUP BY product_handle, unnamed
)
ORDER BY wishers DESC, visitors DESC, product_handle, product_id;
