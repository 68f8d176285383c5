-- Which profile became part of which. A merge travels with the events, so that it is stored as they are: once.
-- When a profile is merged that others were merged into before, those are told again, with the new heir: the
-- latest row is where a visitor is now, and no chain has to be followed.

CREATE VIEW IF NOT EXISTS {database}.profile_merges AS
SELECT
    profile_id AS old_id,
    argMax(JSONExtractString(payload, 'into'), occurred_at) AS new_id,
    max(occurred_at) AS merged_at
FROM {database}.events_stored FINAL
WHERE origin = 'merge'
GROUP BY old_id
COMMENT 'Profiles that were merged into another: old id, present id, when';

CREATE VIEW IF NOT EXISTS {database}.events_by_visitor AS
SELECT
    events.* EXCEPT profile_id,
    if(merges.new_id = '', events.profile_id, merges.new_id) AS profile_id,
    events.profile_id AS recorded_profile_id
FROM {database}.events AS events
LEFT JOIN {database}.profile_merges AS merges ON merges.old_id = events.profile_id
COMMENT 'events, with the profile that the visitor has now';
