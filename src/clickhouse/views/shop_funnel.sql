-- The whole funnel: who looked, who wished, who moved it to the cart and who bought it, of all products, with revenue by currency
-- A visitor counts once in each step, for any number of products.
CREATE OR REPLACE VIEW {database}.shop_funnel {on_cluster} AS
SELECT
    looked.visits AS visits,
    looked.visitors AS visitors,
    wished.wishers AS wishers,
    wished.carters AS carters,
    wished.buyers AS buyers,
    wished.revenue AS revenue
FROM
(
    SELECT
        sum(visits) AS visits,
        uniqCombinedMerge(14)(visitors_sketch) AS visitors
    FROM {database}.shop_visitors_per_day
    WHERE day BETWEEN {from:Date} AND {to:Date}
) AS looked
CROSS JOIN
(
    SELECT
        uniqExact(visitor) AS wishers,
        uniqExactIf(visitor, carted_at IS NOT NULL) AS carters,
        uniqExactIf(visitor, notEmpty(bought)) AS buyers,
        sumMap(CAST(arrayMap(line -> (line.3, line.5), bought), 'Map(String, Decimal(38, 2))')) AS revenue
    FROM {database}.wishes_followed(from = {from:String}, to = {to:String})
) AS wished;
