// What the user `analyst` may SELECT, by name: the contract's tables and views, and the tables behind those views,
// which ClickHouse reads with the reader's rights. Everything else in the database is the service's own.
// docs/analysts.md has the same as statements for a server; a test holds both against the schema.

export const ANALYST_TABLES: readonly string[] = [
  'events',
  'events_stored',
  'events_per_day',
  'top_products',
  'shares_by_channel',
  'profile_merges',
  'events_by_visitor',
  'visits',
  'visits_stored',
  'visits_by_visitor',
  'visits_per_day',
  'purchases',
  'purchases_by_visitor',
  'product_funnel',
];
