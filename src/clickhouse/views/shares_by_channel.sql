-- Share links by channel
-- A profile keeps its code: shared twice, it is two shares of one link.
SELECT
    channel,
    count() AS shares,
    uniqExactIf(share_code, share_code != '') AS share_links,
    uniqExact(profile_id) AS profiles
FROM {database}.events
WHERE type = 'share'
GROUP BY channel
ORDER BY shares DESC, channel
