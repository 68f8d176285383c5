// The settings of the core's compositions, also for `--help`. src/extras/settings.ts has those of extras.

import type { Config, SettingName } from '../config.js';

export const STORE = ['REDIS_URL', 'REDIS_REPLICAS', 'KEY_PREFIX'] as const satisfies readonly SettingName[];

export const SERVE_SETTINGS = [
  ...STORE,
  'HOST',
  'PORT',
  'BASE_PATH',
  'DRAIN_MS',
  'API_KEYS',
  'PUBLISHABLE_KEYS',
  'ALLOWED_ORIGINS',
  'SHOPIFY_SECRET',
  'SHOP_DOMAIN',
  'VISIT_ACCESS',
  'LINKED_SESSIONS',
  'RATE_LIMIT',
  'ANONYMOUS_RATE_LIMIT',
  'TRUST_PROXY',
  'METRICS_TOKEN',
  'GUEST_RETENTION_DAYS',
  'MAX_PRODUCTS',
  'MAX_ITEMS',
  'MAX_ITEMS_BYTES',
  'SHOP_URL',
  'APP_PROXY_PATH',
  'SHARE_URL',
  'IMAGE_HOSTS',
  'REDIS_TIMEOUT_MS',
  'STREAM_HIGH_WATER',
  'SHOP_CURRENCY',
  'VISIT_LOG',
  'VISIT_LOG_HIGH_WATER',
  'CLICKHOUSE_URL',
  'CLICKHOUSE_DATABASE',
] as const satisfies readonly SettingName[];

export const FLUSH_SETTINGS = [
  ...STORE,
  'HOST',
  'METRICS_TOKEN',
  'NEW_DEPLOYMENT',
  'VISIT_RETENTION_DAYS',
  'SHOP_TIMEZONE',
  'CLICKHOUSE_URL',
  'CLICKHOUSE_DATABASE',
  'CLICKHOUSE_CLUSTER',
  'FLUSH_INTERVAL_MS',
  'ERASURE_INTERVAL_S',
  'FLUSH_METRICS_PORT',
] as const satisfies readonly SettingName[];

/** A process that meets a merge completes it, within the limits. */
export const IDENTITY_SETTINGS = [
  ...STORE,
  'MAX_PRODUCTS',
  'MAX_ITEMS',
  'MAX_ITEMS_BYTES',
] as const satisfies readonly SettingName[];

type Given<List extends readonly SettingName[]> = Pick<Config, List[number]>;

export type StoreConfig = Given<typeof STORE>;
export type ServeConfig = Given<typeof SERVE_SETTINGS>;
export type FlushConfig = Given<typeof FLUSH_SETTINGS>;
export type IdentityConfig = Given<typeof IDENTITY_SETTINGS>;
