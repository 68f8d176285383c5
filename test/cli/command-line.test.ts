// The command line itself: what it says to who mistypes, and with which exit code.

import { readFileSync } from 'node:fs';
import t from 'tap';
import { SETTINGS } from '../../src/config.js';
import { startTestRedis } from '../harness/redis.js';
import { wishmeter } from './wishmeter.js';

/** NODE_OPTIONS that run this code first. */
const preloading = (code: string) => `--import=data:text/javascript,${encodeURIComponent(code)}`;

const NO_STACK = /\n\s+at /;

t.test('--version prints the version of package.json', async (t) => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  t.match(await wishmeter({ args: ['--version'] }), { code: 0, stdout: `${version}\n`, stderr: '' });
});

t.test('help names every command and every setting', async (t) => {
  const { code, stdout } = await wishmeter({ args: ['help'] });
  t.equal(code, 0);
  for (const command of ['start', 'serve', 'flush', 'migrate', 'sql', 'dead', 'help']) {
    t.match(stdout, new RegExp(`^  ${command}\\b`, 'm'), command);
  }
  for (const setting of Object.keys(SETTINGS)) t.match(stdout, new RegExp(`^  ${setting}\\b`, 'm'), setting);
});

t.test('a command line that makes no sense is exit code 2 and the usage, on stderr', async (t) => {
  for (const args of [
    [],
    ['strat'],
    ['toString'],
    ['sql', '--fromat', 'JSON', 'SELECT 1'],
    ['sql', 'SELECT', '1'],
    ['sql'],
  ]) {
    const { code, stdout, stderr } = await wishmeter({ args });
    t.equal(code, 2, JSON.stringify(args));
    t.equal(stdout, '');
    t.match(stderr, /^wishmeter: .+\n\nUsage: wishmeter/);
    t.notMatch(stderr, NO_STACK);
  }
});

t.test('all wrong settings are told at once, without their values', async (t) => {
  const env = { PORT: '99999', WORKERS: 'many', API_KEYS: 'hunter2' };
  const { code, stderr } = await wishmeter({ args: ['start'], env });
  t.equal(code, 1);
  t.match(stderr, /^wishmeter: Wrong settings: .*PORT.*WORKERS.*API_KEYS.*\n$/);
  t.notMatch(stderr, 'hunter2');
});

t.test('a command without the database that it needs says which setting names it', async (t) => {
  for (const [command, sentence] of [
    ['serve', /needs REDIS_URL;/],
    ['flush', /needs REDIS_URL and CLICKHOUSE_URL;/],
    ['migrate', /needs CLICKHOUSE_URL;/],
  ] as const) {
    const { code, stderr } = await wishmeter({ args: [command] });
    t.equal(code, 1, command);
    t.match(stderr, sentence);
    t.match(stderr, /^wishmeter: [^\n]+\n$/, 'one sentence');
  }
});

t.test('a Node that uWebSockets.js has no binary for: one sentence that says what to install', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const pretend = "Object.defineProperty(process.versions, 'modules', { value: '999' })";
  const { code, stderr } = await wishmeter({
    args: ['serve'],
    env: { REDIS_URL: redis.url, PORT: '0', NODE_OPTIONS: preloading(pretend) },
  });
  t.equal(code, 1);
  t.match(
    stderr,
    /^wishmeter: uWebSockets\.js [^\n]+ no binary [^\n]+npm install [^\n]*uNetworking\/uWebSockets\.js#v20[^\n]+\n$/,
  );
});

t.test('a Node that is too old: one sentence', async (t) => {
  const pretend = "Object.defineProperty(process.versions, 'node', { value: '20.11.9' })";
  const { code, stderr } = await wishmeter({
    args: ['start'],
    env: { NODE_OPTIONS: preloading(pretend) },
  });
  t.match(
    { code, stderr },
    { code: 1, stderr: 'wishmeter: Node 20.12 or newer is needed; this is 20.11.9.\n' },
  );
});
