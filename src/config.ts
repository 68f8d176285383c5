// Environment -> frozen Config. All mistakes are told at once, each by the name of its setting.
// SETTINGS is the one list of settings: docs/settings.md and `wishmeter help` are checked against it.

import { StartupError } from './errors.js';

type Env = Readonly<Record<string, string | undefined>>;

/** How visit operations treat callers without a credential; see the contract's "Who may call". */
export type VisitAccess = 'session' | 'open' | 'key';

interface Setting<T> {
  /** Shown where the setting is not given. */
  readonly fallback: string;
  /** One line for docs/settings.md. */
  readonly about: string;
  /** Text -> value; throws a sentence that says what is right. */
  readonly parse: (text: string) => T;
}

const setting = <T>(fallback: string, about: string, parse: (text: string) => T): Setting<T> => ({
  fallback,
  about,
  parse,
});

function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const n = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (!(n >= min && n <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
    return n;
  };
}

/** 0 stands for none. */
function integerOr0(min: number, max: number): (text: string) => number {
  return (text) => {
    if (text === '0') return 0;
    try {
      return integer(min, max)(text);
    } catch {
      throw new Error(`must be 0 or a whole number from ${min} to ${max}`);
    }
  };
}

function oneOf<const T extends string>(...allowed: T[]): (text: string) => T {
  return (text) => {
    if (!allowed.includes(text as T)) throw new Error(`must be one of ${allowed.join(', ')}`);
    return text as T;
  };
}

function list(text: string): readonly string[] {
  return Object.freeze(
    text
      .split(',')
      .map((s) => s.trim())
      .filter((s) => s !== ''),
  );
}

function secrets(text: string): readonly string[] {
  const found = list(text);
  if (!found.every((one) => /^[\x21-\x7e]{16,255}$/.test(one)))
    throw new Error('must be secrets of 16 to 255 visible characters, separated by commas');
  return found;
}

function keyList(rule: (key: string) => boolean, sentence: string): (text: string) => readonly string[] {
  return (text) => {
    const keys = list(text);
    if (keys.some((k) => k.length < 16 || !/^[\x21-\x7e]+$/.test(k) || !rule(k))) throw new Error(sentence);
    return keys;
  };
}

function isUrl(text: string, schemes: readonly string[]): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return schemes.includes(protocol) && /^[^,]+$/.test(hostname);
}

/** One, or none where it is empty. */
function url(...schemes: readonly string[]): (text: string) => string {
  return (text) => {
    if (text !== '' && !isUrl(text, schemes)) throw new Error(`must be ${spell(schemes)}`);
    return text;
  };
}

function urls(...schemes: readonly string[]): (text: string) => readonly string[] {
  return (text) => {
    const found = list(text);
    if (!found.every((one) => isUrl(one, schemes))) throw new Error(`must be ${spell(schemes)}`);
    return found;
  };
}

function spell(schemes: readonly string[]): string {
  return schemes.map((scheme) => `${scheme}//host`).join(' or ');
}

function webAddress(text: string): string {
  if (!isUrl(text, ['http:', 'https:']) || /[?#]/.test(text))
    throw new Error('must be like https://shop.example');
  return text.replace(/\/+$/, '');
}

function origins(text: string): readonly string[] {
  const found = list(text);
  if (found.some((origin) => !URL.canParse(origin) || new URL(origin).origin !== origin)) {
    throw new Error(
      'must be origins like https://shop.example: scheme, host, port where it is not the usual one',
    );
  }
  return found;
}

function matching(pattern: RegExp, sentence: string): (text: string) => string {
  return (text) => {
    if (!pattern.test(text)) throw new Error(sentence);
    return text;
  };
}

function proxies(text: string): number {
  if (text === 'true' || text === 'false') return text === 'true' ? 1 : 0;
  return integer(0, 16)(text);
}

const identifier = matching(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'must be letters, digits and _');

export const SETTINGS = {
  HOST: setting(
    '0.0.0.0',
    'address that `serve` listens on; `start` listens on `127.0.0.1` unless it is given',
    (s) => s,
  ),
  PORT: setting('8080', 'port that `serve` listens on; 0 takes a free one', integer(0, 65_535)),
  BASE_PATH: setting(
    '',
    'stands before every path but `/healthz`, `/readyz`, `/metrics`',
    matching(/^(\/[A-Za-z0-9._~-]+)*$/, 'must be empty or like /api/v1, without a slash at its end'),
  ),
  DRAIN_MS: setting(
    '2000',
    'milliseconds that `serve` goes on as before after SIGTERM, but for `/readyz`, which is 503; then it takes no more connections, and for up to a second answers close those that there are',
    integer(0, 60_000),
  ),
  WORKERS: setting('1', '`serve` processes that `start` runs on the one port', integer(1, 256)),
  API_KEYS: setting(
    '',
    'secret keys of servers, comma-separated; `start` makes one where none is given',
    keyList((k) => !k.startsWith('pk_'), 'keys are 16 or more visible characters and do not begin with pk_'),
  ),
  PUBLISHABLE_KEYS: setting(
    '',
    'keys of browsers, comma-separated; they begin with `pk_` and open visits, and wishlists of sessions that belong to no customer',
    keyList((k) => k.startsWith('pk_'), 'keys are 16 or more visible characters and begin with pk_'),
  ),
  ALLOWED_ORIGINS: setting(
    '',
    'origins whose pages may call with a publishable key and read answers (CORS), like `https://shop.example`',
    origins,
  ),
  SHOPIFY_SECRET: setting(
    '',
    "the Shopify app's client secret: makes app-proxy requests and webhooks callers; several, comma-separated, are all good",
    secrets,
  ),
  VISIT_ACCESS: setting(
    'session',
    'what callers without a credential may do with visits: `session`, `open` or `key`',
    oneOf<VisitAccess>('session', 'open', 'key'),
  ),
  LINKED_SESSIONS: setting(
    'closed',
    "whether a storefront's visitor who is not logged in reaches the wishlist of the customer whom the session is linked to: `closed` or `open`",
    oneOf<'closed' | 'open'>('closed', 'open'),
  ),
  RATE_LIMIT: setting(
    '0',
    'requests per second of one caller, its secret key, else its address; above it 429; the `WORKERS` of a `start` divide it among them; 0 is no limit',
    integer(0, 1_000_000),
  ),
  ANONYMOUS_RATE_LIMIT: setting(
    '50',
    'requests per second of one address that is not a loopback one, of callers without a secret key; above it 429; the `WORKERS` of a `start` divide it among them; 0 is no limit',
    integer(0, 1_000_000),
  ),
  TRUST_PROXY: setting(
    '0',
    'proxies before `serve`, each of which adds to `X-Forwarded-For`: the caller is the Nth entry from the right; `true` is 1',
    proxies,
  ),
  METRICS_TOKEN: setting(
    '',
    'where set, `/metrics` needs it as `Authorization: Bearer <token>`',
    matching(/^([\x21-\x7e]{16,})?$/, 'must be 16 or more visible characters'),
  ),
  GUEST_RETENTION_DAYS: setting(
    '365',
    'days after its last visit, item or event that Redis lets a guest go; reading prolongs nothing; customers stay; 0 is for ever',
    integer(0, 36_500),
  ),
  MAX_PRODUCTS: setting(
    '10000',
    'products that one profile counts; a visit to one more is 409 `too_many_products`',
    integer(1, 1_000_000),
  ),
  MAX_ITEMS: setting(
    '1000',
    'items that one wishlist holds; one more is 409 `too_many_items`',
    integer(1, 100_000),
  ),
  MAX_ITEMS_BYTES: setting(
    '1048576',
    'bytes that the items of one wishlist have together, as they are stored; more is 409 `too_many_items`',
    integer(1024, 1e9),
  ),
  SHOP_URL: setting(
    'http://localhost:8080',
    'address of the shop; share links begin with it, like `https://shop.example`; the default follows `PORT`',
    webAddress,
  ),
  APP_PROXY_PATH: setting(
    'wishmeter',
    "path of the app proxy in the shop: share links are under `SHOP_URL`'s `/apps/` and this",
    matching(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 of A-Z a-z 0-9 _ -'),
  ),
  SHARE_PAGE_URL: setting(
    '',
    'page of the shop that shows a shared wishlist: share links lead there with `?code=`, in place of the page of this service',
    url('https:', 'http:'),
  ),
  REDIS_URL: setting(
    '',
    '`redis://` or `rediss://`; several, comma-separated, are a Redis Cluster; without it `start` runs its own',
    urls('redis:', 'rediss:'),
  ),
  REDIS_TIMEOUT_MS: setting(
    '500',
    'milliseconds until a request that Redis does not answer gets 503',
    integer(50, 900),
  ),
  REDIS_REPLICAS: setting(
    '0',
    'replicas of each master that must have a change before it is answered; 503 where they have not in time',
    integer(0, 16),
  ),
  REDIS_FSYNC: setting(
    'everysec',
    'when the embedded Redis has a write on disk: `everysec`, or `always`, before it is acknowledged',
    oneOf<'everysec' | 'always'>('everysec', 'always'),
  ),
  NEW_DEPLOYMENT: setting(
    'refuse',
    'what `start` and `flush` do where Redis has lost the data that the events in ClickHouse belong to: `refuse`, or `accept`, and every visitor gets a new profile id',
    oneOf<'refuse' | 'accept'>('refuse', 'accept'),
  ),
  KEY_PREFIX: setting(
    'wm',
    'begins every Redis key',
    matching(/^[A-Za-z0-9._-]{1,32}$/, 'must be 1 to 32 of A-Z a-z 0-9 . _ -'),
  ),
  STREAM_HIGH_WATER: setting(
    '1073741824',
    'bytes of events waiting in one stream at which new ones get 503',
    integer(1, 1e15),
  ),
  VISIT_LOG: setting(
    'on',
    'whether counted visits also go to ClickHouse, one row each: `on` or `off`',
    oneOf<'on' | 'off'>('on', 'off'),
  ),
  VISIT_LOG_HIGH_WATER: setting(
    '268435456',
    'bytes of visits waiting in one stream from which on visits are counted and no longer logged',
    integer(1, 1e15),
  ),
  VISIT_RETENTION_DAYS: setting(
    '400',
    'days that ClickHouse keeps rows of visits, 10 at least; 0 is for ever. Totals of days are always kept for ever',
    integerOr0(10, 36_500),
  ),
  CLICKHOUSE_URL: setting(
    '',
    '`http://user:password@host:8123` of ClickHouse; without it `start` runs its own',
    url('http:', 'https:'),
  ),
  CLICKHOUSE_DATABASE: setting('wishmeter', 'database that holds `events` and the views', identifier),
  CLICKHOUSE_CLUSTER: setting(
    '',
    'name of a ClickHouse cluster, as in its `remote_servers`: tables are replicated and sharded; see docs/operations.md',
    (text) => (text === '' ? '' : identifier(text)),
  ),
  CLICKHOUSE_INSERT_QUORUM: setting(
    '0',
    'on such a cluster, replicas of a shard that must have an insert before it counts as done; 0 is one',
    integer(0, 100),
  ),
  CLICKHOUSE_PORT: setting('8123', 'port of the embedded ClickHouse; 0 takes a free one', integer(0, 65_535)),
  ANALYST_MAX_SECONDS: setting(
    '60',
    "seconds that a statement of the embedded ClickHouse's users `analyst` and `dashboard` may run",
    integer(1, 86_400),
  ),
  DASHBOARD_PORT: setting('8090', 'port of the dashboard; 0 takes a free one', integer(0, 65_535)),
  DASHBOARD_TOKEN: setting(
    '',
    'opens the dashboard; `start` makes one where it is empty',
    matching(/^([\x21-\x7e]{16,255})?$/, 'must be 16 to 255 visible characters'),
  ),
  FLUSH_INTERVAL_MS: setting(
    '1000',
    'longest wait of an event in Redis before it goes to ClickHouse, in quiet times',
    integer(10, 60_000),
  ),
  ERASURE_INTERVAL_S: setting(
    '3600',
    'seconds in which what was erased from Redis is erased from ClickHouse, all that waits at once',
    integer(60, 86_400),
  ),
  FLUSH_OWNER: setting(
    '',
    'name of this `flush`; one that is restarted under the same name resumes at once, others wait 5 s; random where empty',
    matching(/^[A-Za-z0-9._-]{0,64}$/, 'must be up to 64 of A-Z a-z 0-9 . _ -'),
  ),
  FLUSH_METRICS_PORT: setting(
    '',
    'port on which `flush` has `/metrics` and `/healthz`; none where empty, a free one where 0',
    (text) => (text === '' ? undefined : integer(0, 65_535)(text)),
  ),
  DATA_DIR: setting('data', 'folder of the embedded databases and of the key that `start` makes', (s) => s),
  LOG_LEVEL: setting(
    'info',
    'least severe log line written: `trace` to `fatal`, or `silent`',
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
  ),
} as const;

type Parsed = { readonly [K in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[K]['parse']> };

export interface Config extends Parsed {}

export type SettingName = keyof Config;
export const ALL_SETTINGS = Object.keys(SETTINGS) as readonly SettingName[];

/**
 * Reads some settings, or all; the others are not looked at.
 * @throws StartupError that lists every one of them that is wrong.
 */
export function readConfig<Name extends SettingName = SettingName>(
  env: Env,
  names: readonly Name[] = ALL_SETTINGS as readonly Name[],
): Pick<Config, Name> {
  const config: Record<string, unknown> = {};
  const mistakes: string[] = [];
  for (const name of names) {
    const { fallback, parse } = SETTINGS[name];
    const text = (env[name] ?? '').trim() || fallback;
    try {
      config[name] = parse(text);
    } catch (error) {
      // The value itself is not repeated: it may be a key.
      mistakes.push(`${name} ${(error as Error).message}`);
    }
  }
  if ('SHOP_URL' in config && !env['SHOP_URL']?.trim())
    config['SHOP_URL'] = `http://localhost:${config['PORT']}`;
  if (mistakes.length > 0) throw new StartupError(`Wrong settings: ${mistakes.join('; ')}.`);
  return Object.freeze(config) as unknown as Pick<Config, Name>;
}
