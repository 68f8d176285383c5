-- Wishes by their source, and what followed within 30 days
-- A visitor's first wish for a product in the period decides the source. adds counts all adds, repeats too.
CREATE OR REPLACE VIEW {database}.adds_by_source {on_cluster} AS
SELECT
    added.source AS source,
    added.adds AS adds,
    wished.wishes AS wishes,
    wished.wishers AS wishers,
    wished.carted AS carted,
    wished.bought AS bought,
    wished.revenue AS revenue
FROM
(
    SELECT
        source,
        count() AS adds
    FROM {database}.steps_stored FINAL
    WHERE step = 'add' AND occurred_at >= toDateTime64({from:Date}, 3, {time_zone}) AND occurred_at < toDateTime64(toDate32({to:Date}) + 1, 3, {time_zone})
    GROUP BY source
) AS added
LEFT JOIN
(
    SELECT
        source,
        count() AS wishes,
        uniqExact(visitor) AS wishers,
        countIf(carted_at IS NOT NULL) AS carted,
        countIf(notEmpty(followed.bought)) AS bought,
        sumMap(CAST(arrayMap(line -> (line.3, line.5), followed.bought), 'Map(String, Decimal(38, 2))')) AS revenue
    FROM {database}.wishes_followed(from = {from:String}, to = {to:String}) AS followed
    GROUP BY source
) AS wished ON wished.source = added.source
ORDER BY adds DESC, source;
