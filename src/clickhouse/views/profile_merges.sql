-- Profiles that were merged into another: old id, present id, when
-- When a profile is merged that others were merged into before, those are told again with the new target. The latest row
-- is where a visitor is now, and no chain has to be followed.
SELECT
    old_id,
    new_id,
    merged_at
FROM {database}.profile_merges_stored FINAL
