// The tables and views that the user `analyst` may SELECT: the documented views, and the tables behind them, which ClickHouse
// reads with the reader's rights. docs/analysts.md has the same as GRANT statements; a test compares both with the schema.

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
  'kept_settings',
];
