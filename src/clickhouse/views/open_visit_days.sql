-- Days whose visits may have changed since they were totalled, or never were
SELECT day
FROM {database}.visit_days
GROUP BY day
HAVING max(touched_at) >= max(totalled_at)
