-- The role wishmeter_reader and its user analyst. Run once, as an administrator, with another password and bounds that fit your server.
-- readonly = 2 lets a tool send settings with each statement; one beyond these bounds is refused. With readonly = 1 common tools
-- can't connect. MIN 1 is there because 0 means no limit. Untracked memory doesn't count for max_memory_usage.
-- Without grants on SOURCES the user reaches no files and no network, except what the administrator has set up. access.xml makes grants
-- on `system` count: databases, tables, columns, settings, functions and their like are always shown, and system.parts by the grant
-- below; errors, running statements, threads and disks are not. ClickHouse's own config.xml has the same lines.
CREATE ROLE wishmeter_reader SETTINGS readonly = 2,
  max_execution_time = 60 MIN 1 MAX 300,
  max_memory_usage = 4000000000 MIN 1 MAX 4000000000,
  max_memory_usage_for_user = 8000000000 MIN 1 MAX 8000000000,
  max_untracked_memory = 4194304 MIN 1 MAX 4194304,
  max_temporary_data_on_disk_size_for_user = 8000000000 MIN 1 MAX 8000000000,
  max_concurrent_queries_for_user = 10 MIN 1 MAX 10;
GRANT SELECT ON wishmeter.products TO wishmeter_reader;
GRANT SELECT ON wishmeter.product_variants TO wishmeter_reader;
GRANT SELECT ON wishmeter.products_by_number TO wishmeter_reader;
GRANT SELECT ON wishmeter.variants_by_number TO wishmeter_reader;
GRANT SELECT ON wishmeter.events TO wishmeter_reader;
GRANT SELECT ON wishmeter.visits TO wishmeter_reader;
GRANT SELECT ON wishmeter.order_lines TO wishmeter_reader;
GRANT SELECT ON wishmeter.purchases TO wishmeter_reader;
GRANT SELECT ON wishmeter.events_per_day TO wishmeter_reader;
GRANT SELECT ON wishmeter.top_products TO wishmeter_reader;
GRANT SELECT ON wishmeter.shares_by_channel TO wishmeter_reader;
GRANT SELECT ON wishmeter.share_opens TO wishmeter_reader;
GRANT SELECT ON wishmeter.product_alerts TO wishmeter_reader;
GRANT SELECT ON wishmeter.profile_merges TO wishmeter_reader;
GRANT SELECT ON wishmeter.events_by_visitor TO wishmeter_reader;
GRANT SELECT ON wishmeter.visits_by_visitor TO wishmeter_reader;
GRANT SELECT ON wishmeter.purchases_by_visitor TO wishmeter_reader;
GRANT SELECT ON wishmeter.visit_days TO wishmeter_reader;
GRANT SELECT ON wishmeter.visits_per_day TO wishmeter_reader;
GRANT SELECT ON wishmeter.visitors_per_day TO wishmeter_reader;
GRANT SELECT ON wishmeter.shop_visitors_per_day TO wishmeter_reader;
GRANT SELECT ON wishmeter.visitor_merges TO wishmeter_reader;
GRANT SELECT ON wishmeter.steps_by_visitor TO wishmeter_reader;
GRANT SELECT ON wishmeter.looks_by_visitor TO wishmeter_reader;
GRANT SELECT ON wishmeter.wishes_followed TO wishmeter_reader;
GRANT SELECT ON wishmeter.open_items TO wishmeter_reader;
GRANT SELECT ON wishmeter.product_funnel TO wishmeter_reader;
GRANT SELECT ON wishmeter.most_wished TO wishmeter_reader;
GRANT SELECT ON wishmeter.open_wishes TO wishmeter_reader;
GRANT SELECT ON wishmeter.momentum TO wishmeter_reader;
GRANT SELECT ON wishmeter.wish_rate TO wishmeter_reader;
GRANT SELECT ON wishmeter.looked_never_wished TO wishmeter_reader;
GRANT SELECT ON wishmeter.before_the_wish TO wishmeter_reader;
GRANT SELECT ON wishmeter.wish_to_cart TO wishmeter_reader;
GRANT SELECT ON wishmeter.wish_to_purchase TO wishmeter_reader;
GRANT SELECT ON wishmeter.wished_never_bought TO wishmeter_reader;
GRANT SELECT ON wishmeter.shop_funnel TO wishmeter_reader;
GRANT SELECT ON wishmeter.wishers_returning TO wishmeter_reader;
GRANT SELECT ON wishmeter.visitor_cohorts TO wishmeter_reader;
GRANT SELECT ON wishmeter.visitors_by_week TO wishmeter_reader;
GRANT SELECT ON wishmeter.guests_converted TO wishmeter_reader;
GRANT SELECT ON wishmeter.restock_and_price_drops TO wishmeter_reader;
GRANT SELECT ON wishmeter.adds_by_source TO wishmeter_reader;
GRANT SELECT ON wishmeter.events_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.profile_merges_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.visits_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.visits_per_day_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.visitors_per_day_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.visit_hours TO wishmeter_reader;
GRANT SELECT ON wishmeter.visit_days_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.products_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.steps_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.purchases_stored TO wishmeter_reader;
GRANT SELECT ON wishmeter.kept_settings TO wishmeter_reader;
GRANT SELECT(database, table, name, active, rows, bytes_on_disk, data_compressed_bytes, data_uncompressed_bytes) ON system.parts TO wishmeter_reader;
CREATE USER analyst IDENTIFIED WITH sha256_password BY 'replace-me';
GRANT wishmeter_reader TO analyst;
