// The settings that each composition reads, also for `--help`.

import type { Config, SettingName } from '../config.js';

const STORE = ['REDIS_URL', 'REDIS_REPLICAS', 'KEY_PREFIX'] as const satisfies readonly SettingName[];

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
  'SHOP_NAME',
  'APP_PROXY_PATH',
  'SCRIPT_NAME',
  'SHARE_URL',
  'PRODUCT_URL',
  'SHARE_PAGE_URL',
  'IMAGE_HOSTS',
  'REDIS_TIMEOUT_MS',
  'STREAM_HIGH_WATER',
  'PRODUCT_ALERTS',
  'SHOP_CURRENCY',
  'VISIT_LOG',
  'VISIT_LOG_HIGH_WATER',
  'RECEIVERS_PRIVATE',
  'RECEIVERS_HIGH_WATER',
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
  'RECEIVERS_HIGH_WATER',
  'ERASURE_INTERVAL_S',
  'FLUSH_METRICS_PORT',
] as const satisfies readonly SettingName[];

/** A process that meets a merge completes it, within the limits. */
const MERGES = [
  'MAX_PRODUCTS',
  'MAX_ITEMS',
  'MAX_ITEMS_BYTES',
  'PRODUCT_ALERTS',
] as const satisfies readonly SettingName[];

export const RIGHTS_SETTINGS = [
  ...STORE,
  ...MERGES,
  'CLICKHOUSE_DATABASE',
] as const satisfies readonly SettingName[];

export const IMPORT_SETTINGS = [
  ...STORE,
  ...MERGES,
  'STREAM_HIGH_WATER',
] as const satisfies readonly SettingName[];

export const RECEIVERS_SETTINGS = [
  ...STORE,
  'RECEIVERS_PRIVATE',
  'RECEIVERS_HIGH_WATER',
] as const satisfies readonly SettingName[];

export const DELIVER_SETTINGS = [...RECEIVERS_SETTINGS, ...MERGES] as const satisfies readonly SettingName[];

export const DASHBOARD_SETTINGS = [
  'HOST',
  // PORT and BASE_PATH are for the service's address, which the page of an empty shop shows.
  'PORT',
  'BASE_PATH',
  'CLICKHOUSE_URL',
  'CLICKHOUSE_DATABASE',
  'SHOP_TIMEZONE',
  'DASHBOARD_PORT',
  'DASHBOARD_TOKEN',
  // Product pictures, and links into the shop.
  'SHOP_URL',
  'PRODUCT_URL',
  'IMAGE_HOSTS',
  ...RECEIVERS_SETTINGS,
] as const satisfies readonly SettingName[];

type Given<List extends readonly SettingName[]> = Pick<Config, List[number]>;

export type StoreConfig = Given<typeof STORE>;
export type ServeConfig = Given<typeof SERVE_SETTINGS>;
export type FlushConfig = Given<typeof FLUSH_SETTINGS>;
export type RightsConfig = Given<typeof RIGHTS_SETTINGS>;
export type ImportConfig = Given<typeof IMPORT_SETTINGS>;
export type DeliverConfig = Given<typeof DELIVER_SETTINGS>;
export type ReceiversConfig = Given<typeof RECEIVERS_SETTINGS>;
export type DashboardConfig = Given<typeof DASHBOARD_SETTINGS>;
