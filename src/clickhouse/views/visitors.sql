-- Events, visits and purchases under the present profile of their visitor.

-- Profiles that were merged into another
CREATE OR REPLACE VIEW {database}.profile_merges {on_cluster} AS
SELECT
    old_id,
    new_id,
    merged_at
FROM {database}.profile_merges_stored FINAL;

-- events under the visitor's present profile
CREATE OR REPLACE VIEW {database}.events_by_visitor {on_cluster} AS
SELECT
    rows.* EXCEPT profile_id,
    if(merges.new_id = '', rows.profile_id, merges.new_id) AS profile_id,
    rows.profile_id AS recorded_profile_id
FROM {database}.events AS rows
LEFT ANY JOIN {database}.profile_merges AS merges ON merges.old_id = rows.profile_id;

-- visits under the visitor's present profile
CREATE OR REPLACE VIEW {database}.visits_by_visitor {on_cluster} AS
SELECT
    rows.* EXCEPT profile_id,
    if(merges.new_id = '', rows.profile_id, merges.new_id) AS profile_id,
    rows.profile_id AS recorded_profile_id
FROM {database}.visits AS rows
LEFT ANY JOIN
(
    SELECT
        old,
        new_id
    FROM {database}.profile_merges_stored FINAL
) AS merges ON merges.old = sipHash64(rows.profile_id);

-- purchases under the visitor's present profile, without test orders
CREATE OR REPLACE VIEW {database}.purchases_by_visitor {on_cluster} AS
SELECT
    rows.* EXCEPT profile_id,
    if(merges.new_id = '', rows.profile_id, merges.new_id) AS profile_id,
    rows.profile_id AS recorded_profile_id
FROM {database}.purchases AS rows
LEFT ANY JOIN {database}.profile_merges AS merges ON merges.old_id = rows.profile_id
WHERE NOT rows.test;
