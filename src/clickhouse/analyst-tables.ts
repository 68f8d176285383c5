// What `analyst` may SELECT: the views, and their tables, which ClickHouse reads with the reader's rights.

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
