// The command line: its help, and its messages and exit codes for mistakes, also for a REDIS_URL that can not be used.

import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { COMMAND_LINES, type CommandLine, type CommandName } from '../../src/commands/command-line.js';
import { helpOf } from '../../src/commands/help.js';
import { ALL_SETTINGS, SETTINGS, type SettingName } from '../../src/config.js';
import { whyNoneLoads } from '../../src/http/uws.js';
import { KEY } from '../harness/app.js';
import { makeCertificate, type TestCertificate } from '../harness/certificates.js';
import { ask } from '../harness/client.js';
import { connectTo, startTestCluster, startTestRedis } from '../harness/redis.js';
import { runHere } from './in-process.js';
import { failureIn, logLines, runWishmeter, tempDir, until, wishmeter } from './wishmeter.js';

const NO_STACK = /\n\s+at /;
t.test('--version prints the version of package.json', async (t) => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  t.match(await wishmeter({ args: ['--version'] }), { code: 0, stdout: `${version}\n`, stderr: '' });
});
t.test('--help of a command says what it does and reads, and starts nothing', async (t) => {
  for (const [name, line] of Object.entries<CommandLine>(COMMAND_LINES)) {
    const { about, options = {}, operands = '', settings, example } = line;
    const text = helpOf(name as CommandName);
    t.ok(text.startsWith(`Usage: wishmeter ${name}`));
    for (const part of [about, operands, example, ...Object.keys(options).map((option) => `[--${option}`)])
      t.ok(text.includes(part), part);
    const listed = Array.from(text.matchAll(/^ {2}([A-Z_]+) {2}/gm), ([, setting]) => setting);
    const read: readonly SettingName[] = settings;
    t.same(
      listed,
      ALL_SETTINGS.filter((setting) => read.includes(setting)),
    );
  }
  // The help of each command has its own meaning of an empty URL.
  for (const [name, { settings, ifEmpty = {} }] of Object.entries<CommandLine>(COMMAND_LINES)) {
    const text = helpOf(name as CommandName).replace(/\s+/g, ' ');
    for (const url of ['REDIS_URL', 'CLICKHOUSE_URL'] as const)
      if (name !== 'start' && settings.includes(url))
        t.ok(text.includes(`; if empty, ${ifEmpty[url]?.replaceAll('`', '')}`), `${name}: ${url}`);
      else t.equal(ifEmpty[url], undefined, `${name}: ${url}`);
    t.equal(text.includes('if empty, start runs its own'), name === 'start', name);
  }
  // Nothing could start with these settings: help does not read them.
  const env = { PORT: 'none', DATA_DIR: '/dev/null/none' };
  for (const args of [
    ['start', '-h'],
    ['help', 'start'],
    ['start', '--help'],
  ]) {
    const printed = await wishmeter({ args, env });
    t.match(printed, { code: 0, stdout: helpOf('start').trim(), stderr: '' }, args.join(' '));
  }
});
t.test('help names every command and every setting', async (t) => {
  const { code, stdout } = await wishmeter({ args: ['help'] });
  t.equal(code, 0);
  for (const name of [...Object.keys(COMMAND_LINES), ...Object.keys(SETTINGS)])
    t.match(stdout, new RegExp(`^  ${name}\\b`, 'm'), name);
  const lines = stdout.split('\n');
  const tooLong = lines.filter((line) => line.length > 80);
  t.same(tooLong, [], 'no line is too long for a terminal');
  const words = (text: string) => text.replaceAll('`', '').split(/\s+/).join(' ');
  for (const { about } of [...Object.values(COMMAND_LINES), ...Object.values(SETTINGS)])
    t.ok(words(stdout).includes(words(about)), about);
});
t.test('a wrong command line prints the usage on stderr, with exit code 2', async (t) => {
  for (const args of [
    [],
    ['toString'],
    ['sql', '--fromat', 'JSON', 'SELECT 1'],
    ['sql'],
    ['serve', '8080'],
    ['help', 'strat'],
    ['--version', 'start'],
    ['export', '--customer'],
    ['report', '--weeks', '0'],
    ['report', '--weeks', '53'],
    ['report', '--format', 'pdf'],
  ]) {
    const { code, stdout, stderr } = await wishmeter({ args });
    t.equal(code, 2, JSON.stringify(args));
    t.equal(stdout, '');
    t.match(stderr, /^wishmeter: .+\n\nUsage: wishmeter/);
    t.notMatch(stderr, NO_STACK);
  }
});
t.test('an unknown option is named, and the error says where settings come from', async (t) => {
  const { stderr } = await wishmeter({ args: ['start', '--port=9000'] });
  t.match(
    stderr,
    /^wishmeter: start: Unknown option '--port'\. Settings come from the environment, as in PORT=/,
  );
});
t.test('all wrong settings are reported at once, without their values', async (t) => {
  const env = {
    ...{ PORT: '99999', WORKERS: 'many', API_KEYS: 'sécret-with-hunter2', REDIS_URL: 'http://u:hunter2@h' },
    ...{ CLICKHOUSE_URL: 'ftp://u:hunter2@h' },
  };
  const { code, stderr } = await wishmeter({ args: ['start'], env });
  t.equal(code, 1);
  const lines = logLines(stderr);
  t.match(lines, [{ level: 60, name: 'start', msg: /^Wrong settings: / }], 'a line of JSON, as its log');
  t.equal(lines.length, 1);
  for (const name of Object.keys(env)) t.match(stderr, ` ${name} `);
  t.notMatch(stderr, /hunter2|99999/);
  const sql = await wishmeter({ args: ['sql', 'SELECT 1'], env });
  t.match(sql, { code: 1, stderr: /^wishmeter: Wrong settings: [^\n]*\n$/ }, 'a command has no log');
});
t.test('a process logs once which settings are misspelt, not read, or set by Kubernetes', async (t) => {
  const redis = await startTestRedis(t);
  const env = {
    REDIS_URL: redis.url,
    HOST: '127.0.0.1',
    PORT: '0',
    API_KEY: 'sk_0123456789abcdef',
    redis_url: 'redis://hunter2@elsewhere',
    DASHBOARD_PORT: 'tcp://10.43.0.8:8090',
    FLUSH_INTERVAL_MS: '100',
    PATHS: '/bin',
    SHOPIFY_SECRET: ' ',
  };
  const running = runWishmeter(t, { args: ['serve'], env });
  await running.logged('serving');
  const notes = logLines(running.stdout()).filter(({ settings }) => settings !== undefined);
  t.same(
    notes.map(({ level, settings, msg }) => ({ level, settings, msg })),
    [
      { level: 40, settings: ['API_KEY'], msg: 'no setting has this name; is it API_KEYS?' },
      { level: 40, settings: ['redis_url'], msg: 'no setting has this name; is it REDIS_URL?' },
      { level: 30, settings: ['FLUSH_INTERVAL_MS'], msg: 'serve does not read these settings' },
    ],
  );
  t.notMatch(running.stdout(), /sk_0123|hunter2/);

  // A command prints only its answer, and ignores wrong settings that it does not read.
  const wrong = { ...env, PORT: 'none', DASHBOARD_TOKEN: 'short' };
  t.match(await wishmeter({ args: ['dead'], env: wrong }), { code: 0, stdout: '', stderr: '' });
  const port = { CLICKHOUSE_PORT: 'tcp://10.43.0.7:8123', CLICKHOUSE_URL: 'http://127.0.0.1:1' };
  t.match(await wishmeter({ args: ['sql', 'SELECT 1'], env: port }), {
    stderr: /ClickHouse does not answer/,
  });
  const shown = runWishmeter(t, {
    args: ['dashboard'],
    env: { ...port, DASHBOARD_TOKEN: 'x'.repeat(16), DASHBOARD_PORT: 'tcp://10.43.0.8:8090', PORT: '0' },
  });
  await until('it says so', () =>
    /"settings":\["DASHBOARD_PORT"\],"msg":"Kubernetes set/.test(shown.stdout()),
  );
});
t.test('a command without the database that it needs says so in one sentence', async (t) => {
  const CLICKHOUSE_URL = 'http://127.0.0.1:1';
  const away = /ClickHouse does not answer at http:\/\/127\.0\.0\.1:1 /;
  for (const [command, args, env, sentence] of [
    ['serve', [], {}, /needs REDIS_URL;/],
    ['flush', [], {}, /needs REDIS_URL and CLICKHOUSE_URL;/],
    ['migrate', [], {}, /needs CLICKHOUSE_URL;/],
    ['migrate', [], { CLICKHOUSE_URL }, /ECONNREFUSED/],
    ['sql', ['SELECT 1'], { CLICKHOUSE_URL }, away],
    ['sql', ['SELECT 1'], { CLICKHOUSE_PORT: '1' }, away],
    ['report', [], { CLICKHOUSE_URL }, /ClickHouse does not answer: /],
  ] as const) {
    const { code, stderr } = await runHere(command, args, env);
    t.equal(code, 1, command);
    t.match(stderr, sentence);
    t.match(stderr, /^wishmeter: [^\n]+\n$/, 'one sentence');
  }
});
t.test('visitors’ pages without what they need stop `dashboard` and `start` with one sentence', async (t) => {
  const [token, key] = ['a-token-0123456789', 'sk_0123456789abcdef'];
  const shown = { CLICKHOUSE_URL: 'http://127.0.0.1:1', DASHBOARD_TOKEN: token };
  const on = { ...shown, DASHBOARD_VISITORS: 'on' };
  const logins = { DASHBOARD_LOGINS: 'anna:own-0123456789abcdef' };
  const dir = { DATA_DIR: await tempDir(t), PORT: '0', DASHBOARD_PORT: '0' };
  for (const [command, env, sentence] of [
    [
      'dashboard',
      on,
      /DASHBOARD_VISITORS=on needs DASHBOARD_LOGINS and DASHBOARD_API_URL and DASHBOARD_API_KEY;/,
    ],
    ['dashboard', { ...on, ...logins, DASHBOARD_API_KEY: key }, /=on needs DASHBOARD_API_URL;/],
    ['dashboard', { ...on, ...logins, DASHBOARD_API_URL: 'http://serve' }, /=on needs DASHBOARD_API_KEY;/],
    ['dashboard', { ...shown, DASHBOARD_LOGINS: `anna:${token}` }, /has the token of DASHBOARD_TOKEN;/],
    ['start', { ...on, ...dir }, /=on needs DASHBOARD_LOGINS;/],
  ] as const) {
    const { code, stderr } = await wishmeter({ args: [command], env });
    t.equal(code, 1, command);
    t.match(failureIn(stderr), sentence);
    t.notMatch(stderr, /0123456789/);
  }
});
t.test('an unsupported Node or glibc ends the process with one sentence that says what to use', async (t) => {
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
    const ended = await wishmeter({ args: ['serve'], env });
    t.equal(ended.code, 1);
    t.match(failureIn(ended.stderr), new RegExp(`^${sentence}\\.$`));
  }
});
t.test('the error says what to install if the package has only the newer uWebSockets.js', (t) => {
  const missing = "Cannot find package 'uWebSockets.js' imported from x";
  const oldGlibc = whyNoneLoads(["version `GLIBC_2.38' not found", missing]);
  t.match(oldGlibc, /needs glibc 2\.38 .*npm install uWeb\S+@npm:uws-pack@/);
  const noBinary = whyNoneLoads(["Cannot find module './x.node'", missing]);
  t.match(noBinary, /no binary .*npm install uWeb\S+@npm:uws-pack@/);
  t.end();
});
t.test('every setting is listed by some command', (t) => {
  const listed = new Set<SettingName>(Object.values(COMMAND_LINES).flatMap(({ settings }) => [...settings]));
  t.same([...listed].sort(), ALL_SETTINGS.toSorted());
  t.end();
});

const SERVE = { HOST: '127.0.0.1', PORT: '0', DRAIN_MS: '0', REDIS_TIMEOUT_MS: '900', API_KEYS: KEY };
async function counts(t: Test, env: NodeJS.ProcessEnv): Promise<void> {
  const { logged } = runWishmeter(t, { args: ['serve'], env: { ...SERVE, ...env } });
  const { port } = await logged('serving');
  const headers = { authorization: `Bearer ${KEY}` };
  for (let n = 0; n < 16; n++) {
    const body = { identity: { sessionId: `s-${n}` }, productHandle: 'red-shoe' };
    const answer = await ask(Number(port), 'POST', '/product/visit', { body, headers });
    t.equal(answer.status, 200, answer.text);
  }
  t.equal((await ask(Number(port), 'GET', '/readyz')).status, 200);
}
t.test('serve accepts 5 KB of cookies, and answers headers over 16 KiB with 431', async (t) => {
  const env = { ...SERVE, REDIS_URL: (await startTestRedis(t)).url };
  const { logged } = runWishmeter(t, { args: ['serve'], env });
  const { port } = await logged('serving');
  const status = async (path: string, cookies: number) => {
    const cookie = Array.from({ length: cookies }, (_, n) => `c${n}=${'x'.repeat(1_000)}`).join('; ');
    return (await ask(Number(port), 'GET', path, { headers: { cookie } })).status;
  };
  for (const path of ['/wishlist.js', '/product/visit?sessionId=s&productHandle=x', '/readyz']) {
    t.equal(await status(path, 5), 200, path);
    t.equal(await status(path, 17), 431, path);
  }
});
/** The one sentence of a `serve` that ends. @param run in a process of its own if Node is to trust a certificate */
async function sentenceOf(
  t: Test,
  env: Record<string, string | undefined>,
  run: (env: NodeJS.ProcessEnv) => Promise<{ code: number | null; stderr: string }> = (env) =>
    runHere('serve', [], env),
): Promise<string> {
  const { code, stderr } = await run({ ...SERVE, ...env });
  t.equal(code, 1);
  const sentence = failureIn(stderr);
  t.match(sentence, /^[^\n]+\.$/, 'one sentence');
  return sentence;
}
const inProcess = (env: NodeJS.ProcessEnv) => wishmeter({ args: ['serve'], env });
const trusting = ({ authority }: TestCertificate) => ({ NODE_EXTRA_CA_CERTS: authority });
const UNKNOWN_AUTHORITY =
  /certificate is of an authority that Node does not know; set NODE_EXTRA_CA_CERTS .*\(SELF_SIGNED_CERT_IN_CHAIN\)/;
const OTHER_NAME = /certificate is for another name.*ERR_TLS_CERT_ALTNAME_INVALID/;
t.test(
  'serve uses a cluster behind TLS by the name in its certificate, and explains other certificates',
  async (t) => {
    const tls = await makeCertificate(t, 'DNS:localhost');
    const { urls } = await startTestCluster(t, { tls });
    const REDIS_URL = urls.join(',');
    await counts(t, { REDIS_URL: urls[0], ...trusting(tls) });
    for (const url of [REDIS_URL, urls[0]])
      t.match(await sentenceOf(t, { REDIS_URL: url }), UNKNOWN_AUTHORITY);
    const byAddress = REDIS_URL.replaceAll('localhost', '127.0.0.1');
    t.match(await sentenceOf(t, { REDIS_URL: byAddress, ...trusting(tls) }, inProcess), OTHER_NAME);
  },
);
t.test('serve blames the certificate if it does not fit the addresses of the nodes', async (t) => {
  const tls = await makeCertificate(t, 'DNS:localhost');
  const { urls } = await startTestCluster(t, { tls, endpoint: 'ip' });
  t.match(await sentenceOf(t, { REDIS_URL: urls.join(','), ...trusting(tls) }, inProcess), OTHER_NAME);
});
t.test(
  'serve starts if one URL of a cluster answers, and explains a wrong password or a missing permission',
  async (t) => {
    const { urls } = await startTestCluster(t);
    await counts(t, { REDIS_URL: `redis://127.0.0.1:1,${urls[2]}` });
    const userOf = (rights: readonly string[], name: string) =>
      Promise.all(urls.map((url) => connectTo(t, url).call('ACL', 'SETUSER', name, ...rights)));
    await userOf(['on', '>secret', '~*', '&*', '+@all', '-cluster|slots'], 'half');
    const as = (user: string) => urls.map((url) => url.replace('//', `//${user}@`)).join(',');
    for (const [user, sentence] of [
      ['half:wrong', /does not accept the user or the password of REDIS_URL \(WRONGPASS /],
      ['half:secret', /user of REDIS_URL lacks a permission; .* \(NOPERM .*cluster\|slots/],
    ] as const)
      t.match(await sentenceOf(t, { REDIS_URL: as(user) }), sentence);
  },
);
t.test(
  'serve explains a wrong password, a missing permission, and URLs of several single servers',
  async (t) => {
    const redis = await startTestRedis(t);
    const node = connectTo(t, redis.url);
    await node.call('ACL', 'SETUSER', 'half', 'on', '>secret', '~*', '&*', '+@all', '-eval', '-evalsha');
    const as = (user: string) => redis.url.replace('//', `//${user}@`);
    t.match(await sentenceOf(t, { REDIS_URL: as('half:wrong') }), /WRONGPASS/);
    t.match(await sentenceOf(t, { REDIS_URL: as('half:secret') }), /lacks a permission; .*NOPERM .*eval/);
    const twice = await sentenceOf(t, { REDIS_URL: `${redis.url},${redis.url}` });
    t.match(twice, /names several servers, and they are no Redis Cluster/);
  },
);
