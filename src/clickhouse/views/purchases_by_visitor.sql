-- purchases without those of test orders, with the profile that the visitor has now
SELECT
    rows.* EXCEPT profile_id,
    if(merges.new_id = '', rows.profile_id, merges.new_id) AS profile_id,
    rows.profile_id AS recorded_profile_id
FROM {database}.purchases AS rows
LEFT ANY JOIN {database}.profile_merges AS merges ON merges.old_id = rows.profile_id
WHERE NOT rows.test
