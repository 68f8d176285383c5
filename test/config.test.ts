// Which values settings accept and refuse. (test/cli/command-line: all mistakes are reported at once, without
// their values.)

import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { COMMAND_LINES } from '../src/commands/command-line.js';
import { readConfig, SETTINGS, type SettingName } from '../src/config.js';
import { StartupError } from '../src/errors.js';

function refusal(env: Record<string, string>, names?: readonly SettingName[]): string {
  try {
    readConfig(env, names);
  } catch (error) {
    if (error instanceof StartupError) return error.message;
    throw error;
  }
  return '';
}

t.test('without any setting the config has the fallbacks, and is frozen', async (t) => {
  const config = readConfig({});
  t.match(config, { PORT: 8080, VISIT_ACCESS: 'session', KEY_PREFIX: 'wm', FLUSH_METRICS_PORT: undefined });
  t.same([config.API_KEYS, config.REDIS_URL, config.CLICKHOUSE_URL], [[], [], '']);
  t.match(config, {
    LINKED_SESSIONS: 'closed',
    RATE_LIMIT: 0,
    ANONYMOUS_RATE_LIMIT: 50,
    MAX_PRODUCTS: 10_000,
    MAX_ITEMS: 1_000,
    MAX_ITEMS_BYTES: 1_048_576,
    GUEST_RETENTION_DAYS: 365,
    VISIT_RETENTION_DAYS: undefined,
    SHOP_TIMEZONE: undefined,
    ERASURE_INTERVAL_S: 3_600,
    CLICKHOUSE_DATABASE: 'wishmeter',
  });
  t.throws(() => Object.assign(config, { PORT: 1 }));
  t.throws(() => (config.API_KEYS as string[]).push('x'));
  t.same(Object.keys(config).sort(), Object.keys(SETTINGS).sort());
  for (const [name, { fallback, about }] of Object.entries(SETTINGS)) {
    t.match(about, /^\S.*[^.\s]$/, `${name} is explained in one line`);
    t.equal(refusal({ [name]: fallback }), '', `the fallback of ${name} is right`);
  }
});

t.test('a blank setting counts as missing, and blanks around a value are cut off', async (t) => {
  t.match(readConfig({ PORT: '', VISIT_ACCESS: '  ' }), { PORT: 8080, VISIT_ACCESS: 'session' });
  t.match(readConfig({ PORT: ' 9000 ', VISIT_ACCESS: 'key\n' }), { PORT: 9000, VISIT_ACCESS: 'key' });
});

t.test('a port that Kubernetes sets for a Service of the same name counts as missing', async (t) => {
  const links = {
    CLICKHOUSE_PORT: 'tcp://10.43.0.7:8123',
    DASHBOARD_PORT: 'udp://10.43.0.8:8090',
    FLUSH_METRICS_PORT: 'tcp://[fd00::7]:9464',
  };
  t.match(readConfig(links), { CLICKHOUSE_PORT: 8123, DASHBOARD_PORT: 8090, FLUSH_METRICS_PORT: undefined });
  t.match(refusal({ PORT: 'tcp://10.43.0.7:80' }), /^Wrong settings: PORT /, 'Kubernetes sets no PORT');
  t.match(refusal({ CLICKHOUSE_PORT: 'http://10.43.0.7' }), /CLICKHOUSE_PORT /);
});

t.test('a value in quotes is refused, whichever setting has it', async (t) => {
  const env = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, `"${KEY}"`]));
  const sentences = refusal(env).split('; ');
  t.equal(sentences.length, Object.keys(SETTINGS).length);
  for (const sentence of sentences)
    t.match(sentence, 'must not be in quotes, which would be part of the value');
  for (const value of [`'${KEY}'`, `"${KEY}","${KEY}"`, `${KEY},"${KEY}"`])
    t.match(refusal({ API_KEYS: value }), /^Wrong settings: API_KEYS must not be in quotes/, value);
  t.match(readConfig({ SHOP_NAME: `Ann's "Best"` }), { SHOP_NAME: `Ann's "Best"` });
});

t.test("SHOP_URL is the service's own address unless it is set", async (t) => {
  t.equal(readConfig({}).SHOP_URL, 'http://localhost:8080');
  t.equal(readConfig({ PORT: '9000', SHOP_URL: ' ' }).SHOP_URL, 'http://localhost:9000');
  t.equal(readConfig({ PORT: '9000', SHOP_URL: 'https://a.example' }).SHOP_URL, 'https://a.example');
});

const KEY = 'k'.repeat(16);

interface Values {
  /** Texts that are their own values, or the value of each text. */
  readonly right: readonly string[] | { readonly [text: string]: unknown };
  readonly wrong: readonly string[];
}

const integer = (least: number, most: number, ...wrong: string[]): Values => ({
  right: { [least]: least, [most]: most },
  wrong: [String(least - 1), String(most + 1), '1.5', ...wrong],
});

const VALUES: Readonly<Record<string, Values>> = {
  HOST: { right: ['0.0.0.0', '::1', 'localhost'], wrong: [] },
  PORT: integer(0, 65_535, '0x50', '1e3', 'http', '９'),
  BASE_PATH: {
    right: ['/a', '/api/v1', '/a-b_c.d~e'],
    wrong: ['/', 'api', '/api/', '//', '/:x'],
  },
  DRAIN_MS: integer(0, 60_000, '2s'),
  WORKERS: integer(1, 256, 'auto'),
  API_KEYS: {
    right: { [KEY]: [KEY], [`${KEY},${'y'.repeat(200)}`]: [KEY, 'y'.repeat(200)] },
    wrong: [
      'x'.repeat(15),
      'with a blank inside it',
      'pk_0123456789abcdef',
      `${KEY},short`,
      'ключключключключ',
    ],
  },
  PUBLISHABLE_KEYS: {
    right: { pk_0123456789abc: ['pk_0123456789abc'] },
    wrong: [KEY, 'pk_012345678901', `pk_0123456789abc,${KEY}`],
  },
  ALLOWED_ORIGINS: {
    right: {
      'https://shop.example': ['https://shop.example'],
      'http://localhost:3000,https://b.example': ['http://localhost:3000', 'https://b.example'],
    },
    wrong: [
      ...['*', 'null', 'https://shop.example:443', 'https://a.example,https://a.example/x', 'file:///x'],
      ...['https://*.shop.example', 'https://*', 'https://shop.*', 'ftp://shop.example'],
    ],
  },
  SHOPIFY_SECRET: {
    right: {
      ['x'.repeat(255)]: ['x'.repeat(255)],
      [`${'x'.repeat(16)}, ${'y'.repeat(17)},`]: ['x'.repeat(16), 'y'.repeat(17)],
    },
    wrong: ['x'.repeat(15), 'x'.repeat(256), 'with a blank in the secret', `${'x'.repeat(16)},short`],
  },
  SHOP_DOMAIN: {
    right: {
      'shop.myshopify.com': 'shop.myshopify.com',
      'My-Shop-2.MyShopify.com': 'my-shop-2.myshopify.com',
    },
    wrong: [
      'shop.example',
      'https://shop.myshopify.com',
      'shop.myshopify.com/',
      '.myshopify.com',
      'a.b.myshopify.com',
    ],
  },
  VISIT_ACCESS: { right: ['session', 'open', 'key'], wrong: ['Session', 'none', 'true'] },
  LINKED_SESSIONS: { right: ['closed', 'open'], wrong: ['Closed', 'true', 'none'] },
  PRODUCT_ALERTS: { right: ['on', 'off'], wrong: ['On', 'true', '1'] },
  POPULAR: { right: ['on', 'off'], wrong: ['On', 'true', '1'] },
  POPULAR_FROM: integer(1, 1_000_000),
  RATE_LIMIT: integer(0, 1_000_000, 'none'),
  ANONYMOUS_RATE_LIMIT: integer(0, 1_000_000, 'none'),
  TRUST_PROXY: {
    right: { '0': 0, '16': 16, true: 1, false: 0 },
    wrong: ['17', '-1', 'yes', 'TRUE'],
  },
  DASHBOARD_LOGINS: {
    right: {
      [`anna:${KEY}`]: [{ name: 'anna', token: KEY }],
      [`a.b-c_1:${KEY}:x, ben:${'y'.repeat(255)},`]: [
        { name: 'a.b-c_1', token: `${KEY}:x` },
        { name: 'ben', token: 'y'.repeat(255) },
      ],
      [`anna:${KEY},anna:${KEY}2`]: [
        { name: 'anna', token: KEY },
        { name: 'anna', token: `${KEY}2` },
      ],
    },
    wrong: [
      ...[KEY, `:${KEY}`, 'anna:short', `anna@shop.example:${KEY}`, `${'a'.repeat(65)}:${KEY}`],
      ...[`anna:${KEY},ben:${KEY}`, `anna:${'x'.repeat(256)}`, `anna:${KEY} x`],
    ],
  },
  DASHBOARD_VISITORS: { right: ['on', 'off'], wrong: ['On', 'true', '1'] },
  DASHBOARD_API_URL: {
    right: ['http://serve:8080', 'https://wishes.example/api'],
    wrong: ['serve:8080', 'redis://serve', 'http://'],
  },
  DASHBOARD_API_KEY: { right: [KEY], wrong: ['x'.repeat(15), 'pk_0123456789abcdef', `${KEY},${KEY}`] },
  METRICS_TOKEN: { right: ['x'.repeat(16)], wrong: ['x', 'x'.repeat(15), 'a token with blanks in it'] },
  GUEST_RETENTION_DAYS: integer(0, 36_500, 'never'),
  MAX_PRODUCTS: integer(1, 1_000_000, 'many'),
  MAX_ITEMS: integer(1, 100_000),
  MAX_ITEMS_BYTES: integer(1_024, 1e9, '1MB'),
  SHOP_URL: {
    right: {
      'https://shop.example': 'https://shop.example',
      'https://shop.example/de/': 'https://shop.example/de',
    },
    wrong: [
      ...['shop.example', 'ftp://shop.example', 'https://', 'https://a.example?x=1', 'https://a.example#x'],
      'https://*.shop.example',
    ],
  },
  SHOP_NAME: {
    right: ['Red Shoes', 'Ünïcode & <b>', '靴'.repeat(100)],
    wrong: ['x'.repeat(101), 'a\nb', 'a\u0000b', 'a\u202eb'],
  },
  APP_PROXY_PATH: {
    right: ['a', 'A-Z_09', 'x'.repeat(64)],
    wrong: ['a/b', 'a b', '..', 'x'.repeat(65), 'ä'],
  },
  SHARE_URL: {
    right: ['https://shop.example/list/{code}', 'http://localhost:3000/?list={code}'],
    wrong: ['/list/{code}', 'https://shop.example/list', 'javascript:{code}'],
  },
  SCRIPT_NAME: { right: ['wishlist', 'shop-list_2'], wrong: ['beacon', 'wish.js', '../x', 'ä'] },
  PRODUCT_URL: {
    right: ['https://shop.example/p/{handle}', 'https://shop.example/?p={handle}&v={variant}'],
    wrong: ['/p/{handle}', 'https://shop.example/p/{variant}', 'javascript:{handle}'],
  },
  IMAGE_HOSTS: {
    right: {
      'cdn.shop.example': ['cdn.shop.example'],
      '*.shop.example, localhost:8443': ['*.shop.example', 'localhost:8443'],
    },
    wrong: ['https://cdn.shop.example', '*', '*.', "a;script-src 'x'", 'a b', 'A.example', 'a/b'],
  },
  SHARE_PAGE_URL: {
    right: ['https://shop.example/pages/wishlist', 'http://localhost:3000/?view=shared#list'],
    wrong: ['/pages/wishlist', 'https://', 'javascript:alert(1)'],
  },
  REDIS_URL: {
    right: {
      'redis://h': ['redis://h'],
      'redis://localhost/?path=%2Ftmp%2Fx.sock': ['redis://localhost/?path=%2Ftmp%2Fx.sock'],
      ' redis://a:1 , rediss://u:p@h:1/2,': ['redis://a:1', 'rediss://u:p@h:1/2'],
    },
    wrong: ['localhost:6379', 'http://h', 'redis:/', 'redis://', '//h', 'redis://ok,nonsense'],
  },
  REDIS_TIMEOUT_MS: integer(50, 900, '0.5s'),
  REDIS_REPLICAS: integer(0, 16, 'one'),
  REDIS_FSYNC: { right: ['everysec', 'always'], wrong: ['no', 'Always', '1'] },
  NEW_DEPLOYMENT: { right: ['refuse', 'accept'], wrong: ['yes', 'ACCEPT', 'true'] },
  KEY_PREFIX: {
    right: ['a', 'shop.eu-1_x', 'x'.repeat(32)],
    wrong: ['{x}', 'a b', 'x'.repeat(33)],
  },
  STREAM_HIGH_WATER: integer(1, 999_999_999_999_999, '1GB'),
  VISIT_LOG: { right: ['on', 'off'], wrong: ['ON', 'yes', '1'] },
  SHOP_TIMEZONE: {
    right: {
      'Europe/Berlin': 'Europe/Berlin',
      'europe/berlin': 'Europe/Berlin',
      'Asia/Kolkata': 'Asia/Kolkata',
    },
    wrong: ['Europe/Bern-Stadt', '+02:00', "UTC'", 'Europe/Berlin;'],
  },
  SHOP_CURRENCY: {
    right: { EUR: 'EUR', jpy: 'JPY' },
    wrong: ['EURO', 'EU', '€', '978'],
  },
  VISIT_RETENTION_DAYS: {
    right: { '0': 0, '10': 10, '36500': 36_500 },
    wrong: ['-1', '1', '9', '36501', '400d', '00'],
  },
  RECEIVERS_PRIVATE: { right: ['refuse', 'allow'], wrong: ['on', 'true', 'ALLOW'] },
  RECEIVERS_HIGH_WATER: integer(1, 999_999_999_999_999, '1GB'),
  VISIT_LOG_HIGH_WATER: integer(1, 999_999_999_999_999, '1GB'),
  CLICKHOUSE_URL: {
    right: ['http://h:8123', 'https://u:p@h', 'https://u:p,w@h'],
    wrong: ['h:8123', 'tcp://h:9000', 'http://a:8123,http://b:8123'],
  },
  CLICKHOUSE_DATABASE: { right: ['a', '_A9'], wrong: ['a-b', '1a', 'x'.repeat(65)] },
  CLICKHOUSE_CLUSTER: { right: ['shop_1'], wrong: ['{cluster}', 'x'.repeat(65)] },
  CLICKHOUSE_PORT: integer(0, 65_535, 'x'),
  ANALYST_MAX_SECONDS: integer(1, 86_400, '1m'),
  DASHBOARD_PORT: integer(0, 65_535, 'x'),
  DASHBOARD_TOKEN: {
    right: ['0123456789abcdef'],
    wrong: ['0123456789abcde', 'with a space in it', 'x'.repeat(256)],
  },
  FLUSH_INTERVAL_MS: integer(10, 60_000, '1s'),
  ERASURE_INTERVAL_S: integer(60, 86_400, '1h'),
  FLUSH_METRICS_PORT: integer(0, 65_535, 'x'),
  DATA_DIR: { right: ['/var/lib/wishmeter', 'a b'], wrong: [] },
  LOG_LEVEL: {
    right: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    wrong: ['INFO', 'verbose', '30'],
  },
};

/** SHOPIFY_SECRET needs SHOP_DOMAIN. */
const SHOP = { SHOP_DOMAIN: 'shop.myshopify.com' };

t.test('serve and start refuse SHOPIFY_SECRET without SHOP_DOMAIN, with one sentence', async (t) => {
  const env = { SHOPIFY_SECRET: 'x'.repeat(16) };
  for (const command of ['serve', 'start'] as const) {
    const { settings } = COMMAND_LINES[command];
    t.match(
      refusal(env, settings),
      /^Wrong settings: SHOP_DOMAIN must be set with SHOPIFY_SECRET[^.]*\.myshopify\.com[^.]*\.$/,
    );
    t.equal(refusal({ ...env, ...SHOP }, settings), '');
    t.equal(refusal({}, settings), '');
  }
});

t.test('every setting accepts right values and refuses wrong ones', async (t) => {
  t.same(Object.keys(VALUES).sort(), Object.keys(SETTINGS).sort(), 'a new setting gets its line above');
  for (const [name, { right, wrong }] of Object.entries(VALUES)) {
    const rows = Array.isArray(right) ? right.map((text) => [text, text]) : Object.entries(right);
    for (const [text, value] of rows)
      t.same(readConfig({ ...SHOP, [name]: text })[name as keyof typeof SETTINGS], value, `${name}=${text}`);
    const sentence = new RegExp(`^Wrong settings: ${name} [^\n]+\\.$`);
    for (const text of wrong) t.match(refusal({ ...SHOP, [name]: text }), sentence, `${name}=${text}`);
  }
});

t.test('every setting is read by some code', (t) => {
  const lists = ['config.ts', 'setting-groups.ts', 'app/settings.ts', 'commands/help.ts'];
  const isList = (file: string) => lists.includes(file);
  const code = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !isList(file))
    .map((file) => readFileSync(`src/${file}`, 'utf8').replace(/^\s*(\/\/|\/?\*).*$/gm, ''))
    .join('\n');
  // As `config.NAME`, or by its name from a destructured config.
  for (const name of Object.keys(SETTINGS)) t.match(code, new RegExp(`(\\.|[{,]\\s*)${name}\\b`), name);
  t.end();
});
