// Settings: what is taken, what is refused, and that all mistakes are told at once without their values.

import t from 'tap';
import { readConfig, SETTINGS } from '../src/config.js';
import { StartupError } from '../src/errors.js';

/** The sentence that refuses these settings. */
function refusal(env: Record<string, string>): string {
  try {
    readConfig(env);
  } catch (error) {
    if (error instanceof StartupError) return error.message;
    throw error;
  }
  return '';
}

t.test('without any setting there are the fallbacks, frozen', async (t) => {
  const config = readConfig({});
  t.match(config, {
    PORT: 8080,
    BASE_PATH: '',
    API_KEYS: [],
    VISIT_ACCESS: 'session',
    REDIS_URL: [],
    BUCKETS: 16_384,
    KEY_PREFIX: 'wm',
  });
  t.throws(() => Object.assign(config, { PORT: 1 }));
  t.throws(() => (config.API_KEYS as string[]).push('x'));
  t.same(Object.keys(config).sort(), Object.keys(SETTINGS).sort());
  for (const [name, { fallback, about }] of Object.entries(SETTINGS)) {
    t.match(about, /^\S.*[^.\s]$/, `${name} is explained in one line`);
    t.equal(refusal({ [name]: fallback }), '', `the fallback of ${name} is right`);
  }
});

t.test('blank is not given, and blanks around a value are not part of it', async (t) => {
  t.match(readConfig({ PORT: '', VISIT_ACCESS: '  ' }), { PORT: 8080, VISIT_ACCESS: 'session' });
  t.match(readConfig({ PORT: ' 9000 ', VISIT_ACCESS: 'key\n' }), { PORT: 9000, VISIT_ACCESS: 'key' });
});

t.test('lists are comma-separated', async (t) => {
  const keys = ['key-of-16-letters', 'another-16-letters-key'];
  t.same(readConfig({ API_KEYS: ` ${keys.join(' , ')},` }).API_KEYS, keys);
  t.same(readConfig({ REDIS_URL: 'redis://a:1,rediss://b:2' }).REDIS_URL, ['redis://a:1', 'rediss://b:2']);
});

t.test('values from both sides', async (t) => {
  const right: [string, string[]][] = [
    ['PORT', ['0', '65535']],
    ['BASE_PATH', ['', '/a', '/api/v1', '/a-b_c.d~e']],
    ['API_KEYS', ['x'.repeat(16), `${'x'.repeat(16)},${'y'.repeat(200)}`]],
    ['VISIT_ACCESS', ['session', 'open', 'key']],
    ['REDIS_URL', ['redis://h', 'rediss://u:p@h:1/2', 'redis://localhost/?path=%2Ftmp%2Fx.sock']],
    ['REDIS_TIMEOUT_MS', ['50', '900']],
    ['KEY_PREFIX', ['a', 'shop.eu-1_x', 'x'.repeat(32)]],
    ['BUCKETS', ['1', '1048576']],
    ['STREAM_HIGH_WATER', ['1', '100000000000000']],
    ['CLICKHOUSE_URL', ['http://h:8123', 'https://u:p@h', 'https://u:p,w@h']],
    ['CLICKHOUSE_DATABASE', ['a', '_A9']],
  ];
  for (const [name, values] of right)
    for (const value of values) t.equal(refusal({ [name]: value }), '', `${name}=${value}`);
  const wrong: [string, string[]][] = [
    ['PORT', ['-1', '65536', '80.5', '0x50', '1e3', 'http', '９']],
    ['BASE_PATH', ['/', 'api', '/api/', '//', '/a b', '/:x', '/*', '/a?b']],
    [
      'API_KEYS',
      [
        'short',
        'x'.repeat(15),
        'with a blank inside it',
        'pk_0123456789abcdef',
        `${'x'.repeat(16)},short`,
        'ключключключключ',
      ],
    ],
    ['VISIT_ACCESS', ['Session', 'none', 'true']],
    ['REDIS_URL', ['localhost:6379', 'http://h', 'redis:/', 'redis://', '//h', 'redis://ok,nonsense']],
    ['REDIS_TIMEOUT_MS', ['49', '901']],
    ['KEY_PREFIX', ['{x}', 'a:b', 'a b', '*', 'x'.repeat(33)]],
    ['BUCKETS', ['0', '1048577', '-5']],
    ['STREAM_HIGH_WATER', ['0', '1GB']],
    ['CLICKHOUSE_URL', ['h:8123', 'tcp://h:9000', 'http://a:8123,http://b:8123', 'http://a,http://b']],
    ['CLICKHOUSE_DATABASE', ['a-b', 'a;DROP', '1a', '`a`']],
  ];
  for (const [name, values] of wrong) {
    for (const value of values) {
      t.match(
        refusal({ [name]: value }),
        new RegExp(`^Wrong settings: ${name} [^\n]+\\.$`),
        `${name}=${value}`,
      );
    }
  }
});

t.test('all mistakes are told at once, and no value is repeated: it may be a secret', async (t) => {
  const secrets = {
    API_KEYS: 'sécret-with-an-accent',
    REDIS_URL: 'http://user:hunter2@host',
    CLICKHOUSE_URL: 'ftp://u:hunter3@h',
  };
  const message = refusal({ ...secrets, PORT: '99999', VISIT_ACCESS: 'hunter4' });
  for (const name of ['PORT', 'API_KEYS', 'VISIT_ACCESS', 'REDIS_URL', 'CLICKHOUSE_URL'])
    t.match(message, `${name} `);
  t.equal(message.split(';').length, 5);
  t.notMatch(message, /sécret|hunter|99999/);
});
