// The settings of extras, and of the commands that extras compose, also for `--help`.

import { IDENTITY_SETTINGS, STORE } from '../app/settings.js';
import type { Config, SettingName } from '../config.js';

const ALERTS = ['PRODUCT_ALERTS'] as const satisfies readonly SettingName[];
const POPULAR = ['POPULAR', 'POPULAR_FROM'] as const satisfies readonly SettingName[];
const RECEIVERS = ['RECEIVERS_PRIVATE', 'RECEIVERS_HIGH_WATER'] as const satisfies readonly SettingName[];
const STOREFRONT = [
  'SHOP_NAME',
  'SCRIPT_NAME',
  'PRODUCT_URL',
  'SHARE_PAGE_URL',
] as const satisfies readonly SettingName[];

/** The settings of the extras of `serve`. */
export const EXTRAS_SETTINGS = [
  ...STOREFRONT,
  ...ALERTS,
  ...POPULAR,
  ...RECEIVERS,
] as const satisfies readonly SettingName[];

export const FLUSH_EXTRAS_SETTINGS = ['RECEIVERS_HIGH_WATER'] as const satisfies readonly SettingName[];

/** A merge or an erasure changes the indexes of items. */
const IDENTITY = [...IDENTITY_SETTINGS, ...ALERTS] as const satisfies readonly SettingName[];

export const RIGHTS_SETTINGS = [...IDENTITY, 'CLICKHOUSE_DATABASE'] as const satisfies readonly SettingName[];

export const IMPORT_SETTINGS = [...IDENTITY, 'STREAM_HIGH_WATER'] as const satisfies readonly SettingName[];

export const RECEIVERS_SETTINGS = [...STORE, ...RECEIVERS] as const satisfies readonly SettingName[];

export const DELIVER_SETTINGS = [...IDENTITY, ...RECEIVERS] as const satisfies readonly SettingName[];

const VISITORS_SETTINGS = [
  'DASHBOARD_VISITORS',
  'DASHBOARD_API_URL',
  'DASHBOARD_API_KEY',
  'APP_PROXY_PATH',
  'SHARE_URL',
] as const satisfies readonly SettingName[];

export const DASHBOARD_SETTINGS = [
  ...VISITORS_SETTINGS,
  'DASHBOARD_LOGINS',
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

export type AlertsConfig = Given<typeof ALERTS>;
export type PopularConfig = Given<typeof POPULAR>;
export type StorefrontConfig = Given<typeof STOREFRONT>;
export type ExtrasConfig = Given<typeof EXTRAS_SETTINGS>;
export type FlushExtrasConfig = Given<typeof FLUSH_EXTRAS_SETTINGS>;
export type RightsConfig = Given<typeof RIGHTS_SETTINGS>;
export type ImportConfig = Given<typeof IMPORT_SETTINGS>;
export type DeliverConfig = Given<typeof DELIVER_SETTINGS>;
export type ReceiversConfig = Given<typeof RECEIVERS>;
export type DashboardConfig = Given<typeof DASHBOARD_SETTINGS>;
