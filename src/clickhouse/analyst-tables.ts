// What the user `analyst` may SELECT, by name: the contract's tables and views, and the tables behind those views,
// which ClickHouse reads with the reader's rights. Everything else in the database is the service's own.
// docs/analysts.md has the same as statements for a server; a test holds both against the schema.

import { loadViews } from './views.js';

export const ANALYST_TABLES: readonly string[] = [
  ...loadViews().map(({ name }) => name),
  'events_stored',
  'profile_merges_stored',
  'visits_stored',
  'visits_per_day_stored',
  'visitors_per_day_stored',
  'visit_hours',
  'visit_days_stored',
  'products_stored',
  'steps_stored',
  'purchases_stored',
];
