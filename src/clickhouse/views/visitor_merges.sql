-- profile_merges in the numbers of steps_by_visitor and looks_by_visitor: hashes of the earlier profile and of the present one
SELECT
    old,
    present
FROM {database}.visitor_merges_stored FINAL
