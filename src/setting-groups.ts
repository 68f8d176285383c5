// All settings: how each is parsed, its description, and its default. docs/settings.md and `wishmeter help` are generated
// from these three groups.

import {
  addressWith,
  anything,
  currency,
  identifier,
  integer,
  isHost,
  isOrigin,
  isUrl,
  list,
  logins,
  oneOf,
  port,
  proxies,
  shopAddress,
  shopDomain,
  text,
  timeZone,
  visitDays,
  webUrl,
} from './setting-values.js';

interface Setting<T> {
  readonly parse: (given: string) => T;
  readonly about: string;
  readonly fallback: string;
}

function setting<T>(parse: Setting<T>['parse'], about: string, fallback = ''): Setting<T> {
  return { parse, about, fallback };
}

export const USUAL = {
  API_KEYS: setting(
    list(/^(?!pk_)[\x21-\x7e]{16,}$/, 'are 16 or more visible characters and do not begin with pk_'),
    'secret keys of servers, comma-separated; `start` makes one if empty',
  ),
  SHOP_URL: setting(
    shopAddress,
    'address of the shop and of share links; the default follows `PORT`',
    'http://localhost:8080',
  ),
  SHOPIFY_SECRET: setting(
    list(/^[\x21-\x7e]{16,255}$/, 'must be secrets of 16 to 255 visible characters'),
    "the Shopify app's client secret, for app-proxy requests and webhooks; accepts several, comma-separated",
  ),
  SHOP_DOMAIN: setting(
    shopDomain,
    "the shop's own domain, like `shop.myshopify.com`; required with `SHOPIFY_SECRET`, because every shop of the app signs with that secret",
  ),
  TRUST_PROXY: setting(
    proxies,
    'number of proxies before `serve`: the caller is the Nth entry of `X-Forwarded-For` from the right; `true` is 1',
    '0',
  ),
  REDIS_URL: setting(
    list(isUrl('redis:', 'rediss:'), 'must be redis://host or rediss://host'),
    'Redis, or nodes of a Redis Cluster, comma-separated, one or more; if empty, `start` runs its own',
  ),
  CLICKHOUSE_URL: setting(
    webUrl,
    'ClickHouse, as `http://user:password@host:8123`; if empty, `start` runs its own',
  ),
  METRICS_TOKEN: setting(
    text(/^[\x21-\x7e]{16,}$/, 'must be 16 or more visible characters'),
    'if set, `/metrics` needs `Authorization: Bearer <token>`',
  ),
  DATA_DIR: setting(anything, 'folder of the embedded databases and the files of `start`', 'data'),
};

export const OCCASIONAL = {
  HOST: setting(anything, 'address to listen on; default of `start` and `dashboard`: `127.0.0.1`', '0.0.0.0'),
  PORT: setting(port, 'port of `serve`; 0 takes a free one', '8080'),
  BASE_PATH: setting(
    text(/^(\/[A-Za-z0-9._~-]+)+$/, 'must be empty or like /api/v1, without a slash at its end'),
    'precedes every path but `/healthz`, `/readyz`, `/metrics`',
  ),
  WORKERS: setting(integer(1, 256), '`serve` processes of `start` on one port', '1'),
  LOG_LEVEL: setting(
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    'least severe log line: `trace` to `fatal`, or `silent`',
    'info',
  ),
  PUBLISHABLE_KEYS: setting(
    list(
      /^pk_[\x21-\x7e]{13,}$/,
      'are 16 or more visible characters and begin with pk_; `echo pk_$(openssl rand -hex 16)` makes one',
    ),
    'keys of browsers, comma-separated, for visits, and for wishlists of guests',
  ),
  ALLOWED_ORIGINS: setting(
    list(
      isOrigin,
      'must be origins like https://shop.example: scheme, host, and port if it is not the default; * stands for nothing',
    ),
    'origins, like `https://shop.example`, whose pages may call with a publishable key and read answers',
  ),
  VISIT_ACCESS: setting(
    oneOf('session', 'open', 'key'),
    'visits that need no credential: of sessions (`session`), of customers, too (`open`), or none (`key`)',
    'session',
  ),
  LINKED_SESSIONS: setting(
    oneOf('closed', 'open'),
    "whether visitors without a login reach the wishlist of the session's customer: `closed` or `open`",
    'closed',
  ),
  RATE_LIMIT: setting(
    integer(0, 1_000_000),
    'requests per second of a secret key, or of an address without one, divided among `WORKERS`; 0 is no limit',
    '0',
  ),
  ANONYMOUS_RATE_LIMIT: setting(
    integer(0, 1_000_000),
    'requests per second of an address without a secret key, loopback excepted; 0 is no limit',
    '50',
  ),
  SHOP_NAME: setting(
    text(/^[^\p{C}]{1,100}$/u, 'must be at most 100 characters, none of which is a control character'),
    'name of the shop on the share page; if empty, the host of `SHOP_URL`',
  ),
  APP_PROXY_PATH: setting(
    text(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 of A-Z a-z 0-9 _ -'),
    'path of the app proxy in the shop, below `/apps/`',
    'wishmeter',
  ),
  SCRIPT_NAME: setting(
    text(/^(?!beacon$)[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 of A-Z a-z 0-9 _ -, and not beacon'),
    'name of the storefront kit, `/<name>.js`',
    'wishlist',
  ),
  SHARE_URL: setting(
    addressWith('{code}'),
    'share links, with `{code}`; if empty, `{SHOP_URL}/apps/{APP_PROXY_PATH}/wishlist/share/{code}`',
  ),
  PRODUCT_URL: setting(
    addressWith('{handle}'),
    'links of the share page and the dashboard, with `{handle}` and `{variant}`; if empty, `{SHOP_URL}/products/{handle}?variant={variant}`',
  ),
  SHARE_PAGE_URL: setting(webUrl, "the shop's own share page: share links lead there, with `?code=`"),
  IMAGE_HOSTS: setting(
    list(isHost, 'must be hosts like cdn.shop.example or *.shop.example'),
    "hosts of the `https:` images of the share page and the dashboard, comma-separated; `*.` is every host below; if empty, `SHOP_URL`'s host, `*.myshopify.com` and `cdn.shopify.com`",
  ),
  GUEST_RETENTION_DAYS: setting(
    integer(0, 36_500),
    'days that Redis keeps guests after their last write; 0 is for ever',
    '365',
  ),
  VISIT_RETENTION_DAYS: setting(
    (given) => (given === '' ? undefined : visitDays(given)),
    'days that ClickHouse keeps visits, at least 10; 0 is for ever; daily totals stay; if empty, the value stored in ClickHouse, at first 400',
  ),
  SHOP_TIMEZONE: setting(
    (given) => (given === '' ? undefined : timeZone(given)),
    'time zone of days and weeks for analysts, like `Europe/Berlin`; if empty, the value stored in ClickHouse, at first UTC',
  ),
  SHOP_CURRENCY: setting(
    currency,
    'currency, like `EUR`, of orders, items and products without one; if empty, such orders are refused, and no alert compares such prices',
  ),
  PRODUCT_ALERTS: setting(
    oneOf('on', 'off'),
    'alerts for price drops and restocks: `on` or `off`, for all processes alike',
    'off',
  ),
  POPULAR: setting(
    oneOf('on', 'off'),
    '`GET /popular` says how many visitors saved a product: `on` or `off`',
    'on',
  ),
  POPULAR_FROM: setting(
    integer(1, 1_000_000),
    'fewest visitors that `GET /popular` shows; it answers 0 for fewer, so that nobody is singled out',
    '5',
  ),
  RECEIVERS_PRIVATE: setting(
    oneOf('refuse', 'allow'),
    'receivers at `http:` and at addresses that are not public: `refuse` or `allow`',
    'refuse',
  ),
  VISIT_LOG: setting(oneOf('on', 'off'), 'visits also go to ClickHouse: `on` or `off`', 'on'),
  REDIS_REPLICAS: setting(
    integer(0, 16),
    'replicas of each master that must have a write before its answer; while fewer keep up, writes get 503',
    '0',
  ),
  REDIS_FSYNC: setting(
    oneOf('everysec', 'always'),
    'when the embedded Redis writes to disk: `everysec`, or `always` (before the answer)',
    'everysec',
  ),
  KEY_PREFIX: setting(
    text(/^[A-Za-z0-9._-]{1,32}$/, 'must be 1 to 32 of A-Z a-z 0-9 . _ -'),
    'begins every Redis key',
    'wm',
  ),
  CLICKHOUSE_DATABASE: setting(identifier, 'database of `events` and the views', 'wishmeter'),
  CLICKHOUSE_CLUSTER: setting(
    identifier,
    'ClickHouse cluster, as in its `remote_servers`, with replicated and sharded tables; see docs/scaling.md',
  ),
  CLICKHOUSE_PORT: setting(port, 'port of the embedded ClickHouse; 0 takes a free one', '8123'),
  FLUSH_METRICS_PORT: setting(
    (given) => (given === '' ? undefined : port(given)),
    'port of `/metrics`, `/healthz` and `/readyz` of `flush`; 0 takes a free one, empty none',
  ),
  DASHBOARD_PORT: setting(port, 'port of the dashboard; 0 takes a free one', '8090'),
  DASHBOARD_TOKEN: setting(
    text(/^[\x21-\x7e]{16,255}$/, 'must be 16 to 255 visible characters'),
    'opens the dashboard; `start` makes one if empty',
  ),
  DASHBOARD_LOGINS: setting(
    logins,
    "persons' own logins to the dashboard, as `<name>:<token>`, comma-separated; visitors' pages need one",
  ),
  DASHBOARD_VISITORS: setting(
    oneOf('on', 'off'),
    "visitors' pages on the dashboard, which show, export and erase personal data: `on` or `off`",
    'off',
  ),
  DASHBOARD_API_URL: setting(
    webUrl,
    "the service, with `BASE_PATH`, for visitors' pages, as `http://serve:8080`; set by `start`",
  ),
  DASHBOARD_API_KEY: setting(
    text(
      /^(?!pk_)[\x21-\x2b\x2d-\x7e]{16,}$/,
      'must be 16 or more visible characters without a comma and not begin with pk_',
    ),
    "one of `API_KEYS`, for visitors' pages only; `start` makes one if empty, and adds it to `API_KEYS`",
  ),
};

export const RARE = {
  MAX_PRODUCTS: setting(integer(1, 1_000_000), 'counted products of a profile; one more is 409', '10000'),
  MAX_ITEMS: setting(integer(1, 100_000), 'items of a wishlist; one more is 409', '1000'),
  MAX_ITEMS_BYTES: setting(integer(1024, 1e9), 'bytes of the items of a wishlist; more is 409', '1048576'),
  DRAIN_MS: setting(
    integer(0, 60_000),
    'milliseconds from SIGTERM (`/readyz` becomes 503) until `serve` takes no more connections',
    '2000',
  ),
  REDIS_TIMEOUT_MS: setting(integer(50, 900), 'milliseconds that a request waits for Redis; then 503', '500'),
  STREAM_HIGH_WATER: setting(
    integer(1, 1e15),
    'bytes of events that may wait per stream; beyond that, 503',
    '1073741824',
  ),
  VISIT_LOG_HIGH_WATER: setting(
    integer(1, 1e15),
    'bytes of visits that may wait per stream; beyond that, visits are counted but not logged',
    '268435456',
  ),
  RECEIVERS_HIGH_WATER: setting(
    integer(1, 1e15),
    'bytes of deliveries that may wait per receiver; beyond that, the oldest become dead letters',
    '67108864',
  ),
  FLUSH_INTERVAL_MS: setting(
    integer(10, 60_000),
    'longest wait of an event in Redis, in quiet times',
    '1000',
  ),
  ERASURE_INTERVAL_S: setting(
    integer(60, 86_400),
    'seconds within which an erasure reaches ClickHouse',
    '3600',
  ),
  ANALYST_MAX_SECONDS: setting(
    integer(1, 86_400),
    'time limit of statements of `analyst` and the dashboard in the embedded ClickHouse',
    '60',
  ),
  NEW_DEPLOYMENT: setting(
    oneOf('refuse', 'accept'),
    'if Redis lost the visitors that ClickHouse has, `flush` ends (`refuse`) or goes on without them (`accept`)',
    'refuse',
  ),
};
