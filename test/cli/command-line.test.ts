// The command line itself: its messages and exit codes for mistakes.

import { readFileSync } from 'node:fs';
import t from 'tap';
import { COMMAND_LINES, type CommandName, helpOf } from '../../src/commands/help.js';
import { ALL_SETTINGS, SETTINGS } from '../../src/config.js';
import { whyNoneLoads } from '../../src/http/uws.js';
import { startTestRedis } from '../harness/redis.js';
import { tempDir, wishmeter } from './wishmeter.js';

const NO_STACK = /\n\s+at /;

t.test('--version prints the version of package.json', async (t) => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  t.match(await wishmeter({ args: ['--version'] }), { code: 0, stdout: `${version}\n`, stderr: '' });
});

t.test('--help of a command says what it does and reads, and starts nothing', async (t) => {
  for (const [name, { about, settings, example }] of Object.entries(COMMAND_LINES)) {
    const text = helpOf(name as CommandName);
    t.ok(text.startsWith(`Usage: wishmeter ${name}`));
    for (const part of [about, example]) t.ok(text.includes(part), part);
    t.same(
      [...text.matchAll(/^ {2}([A-Z_]+) {2}/gm)].map(([, setting]) => setting),
      ALL_SETTINGS.filter((setting) => settings.some((listed) => listed === setting)),
    );
  }
  // Settings that nothing could start with: they are not even read.
  const env = { PORT: 'none', DATA_DIR: '/dev/null/none' };
  for (const args of [
    ['start', '-h'],
    ['help', 'start'],
    ['start', '--help'],
  ]) {
    const told = await wishmeter({ args, env });
    t.match(told, { code: 0, stdout: helpOf('start').trim(), stderr: '' }, args.join(' '));
  }
});

t.test('help names every command and every setting', async (t) => {
  const { code, stdout } = await wishmeter({ args: ['help'] });
  t.equal(code, 0);
  for (const name of [...Object.keys(COMMAND_LINES), ...Object.keys(SETTINGS)])
    t.match(stdout, new RegExp(`^  ${name}\\b`, 'm'), name);
});

t.test('a command line that makes no sense is exit code 2 and the usage, on stderr', async (t) => {
  for (const args of [
    [],
    ['toString'],
    ['sql', '--fromat', 'JSON', 'SELECT 1'],
    ['sql'],
    ['start', '-p'],
    ['serve', '8080'],
    ['dead', '--everything'],
    ['help', 'strat'],
    ['help', 'start', 'serve'],
    ['--version', 'start'],
  ]) {
    const { code, stdout, stderr } = await wishmeter({ args });
    t.equal(code, 2, JSON.stringify(args));
    t.equal(stdout, '');
    t.match(stderr, /^wishmeter: .+\n\nUsage: wishmeter/);
    t.notMatch(stderr, NO_STACK);
  }
});

t.test('what is not taken is named, and where settings come from is said', async (t) => {
  const { stderr } = await wishmeter({ args: ['start', '--port=9000'] });
  t.match(
    stderr,
    /^wishmeter: start does not take "--port=9000"\. Settings come from the environment, as in PORT=/,
  );
});

t.test('all wrong settings are told at once, without their values', async (t) => {
  const env = { PORT: '99999', WORKERS: 'many', API_KEYS: 'hunter2' };
  const { code, stderr } = await wishmeter({ args: ['start'], env });
  t.equal(code, 1);
  t.match(stderr, /^wishmeter: Wrong settings: .*PORT.*WORKERS.*API_KEYS.*\n$/);
  t.notMatch(stderr, 'hunter2');
});

t.test('a wrong setting that a command does not read does not stop it', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const env = { REDIS_URL: redis.url, PORT: 'none', DASHBOARD_TOKEN: 'short' };
  t.match(await wishmeter({ args: ['dead'], env }), { code: 0, stderr: '' });
});

t.test('a command without the database that it needs says which setting names it', async (t) => {
  // Not this tree's own, where an earlier `make run` may have left an embedded database.
  const env = { DATA_DIR: await tempDir(t) };
  for (const [command, sentence] of [
    ['serve', /needs REDIS_URL;/],
    ['flush', /needs REDIS_URL and CLICKHOUSE_URL;/],
    ['migrate', /needs CLICKHOUSE_URL;/],
  ] as const) {
    const { code, stderr } = await wishmeter({ args: [command], env });
    t.equal(code, 1, command);
    t.match(stderr, sentence);
    t.match(stderr, /^wishmeter: [^\n]+\n$/, 'one sentence');
  }
});

t.test('a Node or a glibc that will not do is one sentence that says what to use', async (t) => {
  const missing = 'uWebSockets\\.js has no binary [^\\n]+: use Node 24 [^\\n]+, or Node 20 or 22';
  const oldGlibc = 'uWebSockets\\.js needs glibc 2\\.38 [^\\n]+ is older: use Node 20 or 22';
  const version = (name: string, value: string) =>
    `Object.defineProperty(process.versions, '${name}', { value: '${value}' })`;
  const dlopen = `process.dlopen = (_, file) => {
    throw new Error("/lib/libc.so.6: version \`GLIBC_2.38' not found (required by " + file + ")");
  }`;
  for (const [code, sentence] of [
    [version('modules', '999'), missing],
    [dlopen, oldGlibc],
    [version('node', '20.11.9'), 'Node 20\\.12 or newer is needed; this is 20\\.11\\.9'],
  ] as const) {
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(code)}`;
    const env = { REDIS_URL: 'redis://127.0.0.1:1', PORT: '0', NODE_OPTIONS };
    const stderr = new RegExp(`^wishmeter: ${sentence}\\.\\n$`);
    t.match(await wishmeter({ args: ['serve'], env }), { code: 1, stderr }, sentence);
  }
});

t.test('where the package has only the newer uWebSockets.js, the sentence says what to install', (t) => {
  const missing = "Cannot find package 'uWebSockets.js' imported from x";
  t.match(
    whyNoneLoads(["version `GLIBC_2.38' not found", missing]),
    /needs glibc 2\.38 .*npm install uWeb\S+@npm:uws-pack@/,
  );
  t.match(
    whyNoneLoads(["Cannot find module './x.node'", missing]),
    /no binary .*npm install uWeb\S+@npm:uws-pack@/,
  );
  t.end();
});
