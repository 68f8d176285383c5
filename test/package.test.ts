// The package of `make package`, installed offline into an empty folder: it is small and complete, and its
// commands run. Dependencies have exact versions and digests, and no scripts. (test/docs.test.ts:
// docs/architecture.md names each of them.)

import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { loadUws } from '../src/http/uws.js';
import { shopAt, sql } from './cli/started.js';
import { runWishmeter, tempDir, until } from './cli/wishmeter.js';
import { needs } from './harness/needs.js';
import { startStores } from './harness/stores.js';

const exec = promisify(execFile);
const ROOT = new URL('../../', import.meta.url);
const MAKE_PACKAGE = fileURLToPath(new URL('../../.ci/package.mjs', import.meta.url));
const KEY = 'sk_a-key-for-this-test';
const MOST_BYTES = 60e6;

const linux = needs(process.platform === 'linux' ? undefined : 'the package is for Linux');

t.test('the npm package', linux, async (t) => {
  const folder = await tempDir(t);
  const { PATH, HOME } = process.env;
  const { from } = await loadUws();
  const options = from.startsWith('uws-pack') ? ['--old-glibc'] : [];
  const [{ stdout: made }, stores] = await Promise.all([
    exec(process.execPath, [MAKE_PACKAGE, folder, ...options]),
    startStores(t),
  ]);
  const installed = join(folder, 'a #b?c%d');
  await mkdir(installed);
  await exec('npm', ['install', '--omit=optional', '--ignore-scripts', '--offline', made.trim()], {
    cwd: installed,
    env: { PATH, HOME, npm_config_cache: join(folder, 'cache') },
  });
  const program = join(installed, 'node_modules/.bin/wishmeter');

  t.test(
    'the installed package has one uWebSockets.js, and no tests, tools or embedded ClickHouse',
    async (t) => {
      const bytes = await sizeOf(installed);
      t.ok(bytes <= MOST_BYTES, `${bytes} bytes`);
      const files = await readdir(join(installed, 'node_modules/wishmeter'), { recursive: true });
      const foreign =
        /^(dist\/)?(test|bench)\/|^\.ci|^(?!node_modules|src\/extras\/storefront\/kit\/wishlist\.d\.ts$).*\.ts$|^node_modules\/(chdb|tap|typescript)\//;
      const uws = /^node_modules\/(@[^/]+\/)?(uws-pack|uwebsockets\.js)$/i;
      const [strangers, servers] = [foreign, uws].map((names) => files.filter((file) => names.test(file)));
      t.same(strangers, []);
      t.equal(servers?.length, 1);
    },
  );

  t.test('an embedded start of the installed package says in one sentence what to install', async (t) => {
    const ports = { PORT: '0', CLICKHOUSE_PORT: '0', DASHBOARD_PORT: '0' };
    const env = { PATH, HOST: '127.0.0.1', ...ports, DATA_DIR: join(folder, 'data') };
    const failed = await exec(program, ['start'], { env }).catch((error) => error);
    t.equal(failed.code, 1);
    t.match(
      JSON.parse(failed.stderr).msg,
      /^The embedded ClickHouse is not installed: run `npm install chdb@[\d.]+`, or set CLICKHOUSE_URL to a ClickHouse server\.$/,
    );
  });

  t.test('the installed package migrates, serves, flushes and shows the dashboard', async (t) => {
    const { clickhouse } = stores;
    const env = { ...stores.env, PATH, API_KEYS: KEY, REDIS_TIMEOUT_MS: '900' };
    const { stdout: migrated } = await exec(program, ['migrate'], { env });
    t.match(migrated, /^001_\w+\n/);

    const ofDashboard = { DASHBOARD_PORT: '0', DASHBOARD_TOKEN: '0123456789abcdef' };
    const main = join(installed, 'node_modules/wishmeter/dist/src/main.js');
    const run = (command: string, more = {}) =>
      runWishmeter(t, { main, args: [command], env: { ...env, ...more } });
    const [serving, flushing, showing] = [run('serve'), run('flush'), run('dashboard', ofDashboard)];
    const line = await serving.logged('serving');
    const url = `http://127.0.0.1:${line.port}`;
    const shop = shopAt(url, KEY);
    t.equal(line.uws, from);
    t.match(
      await (await fetch(`${url}/metrics`)).text(),
      `wishmeter_uwebsockets_info{package="${from}"} 1\n`,
    );
    await shop.visit({ sessionId: 's-1' });
    t.equal(await shop.count({ sessionId: 's-1' }), 1);
    await shop.event({ sessionId: 's-1' });
    await until('the event is in ClickHouse', async () => {
      return (await sql(clickhouse.url, 'SELECT count() FROM events')) === '1';
    });
    const ui = ['/docs/swagger-ui.js', '/docs/swagger-ui.css', '/docs/docs.js', '/docs/docs.css'];
    for (const path of ['/docs', ...ui, '/beacon.js', '/wishlist.js', '/wishlist-page.js', '/openapi.json']) {
      const answer = await fetch(url + path);
      t.equal(answer.status, 200, path);
      await answer.arrayBuffer();
    }
    const shown = await showing.logged('dashboard');
    for (const path of ['/', '/frame.js', '/dashboard.css', '/uplot.js'])
      t.equal((await fetch(`http://127.0.0.1:${shown.port}${path}`)).status, 200, path);
    for (const { child, ended } of [serving, flushing, showing]) {
      child.kill('SIGTERM');
      t.match(await ended, { code: 0, stderr: '' });
    }
  });
});

/** Files of operators, next to ours; deploy/README.md names the first two. */
const NOT_OURS = [
  '.env',
  'serve.env',
  '.npmrc',
  'token',
  'tls.key',
  'secret.yaml',
  'compose.override.yaml',
  'notes',
];

t.test('the npm package has all of deploy/, and no secret that lies next to our files', async (t) => {
  const tree = await tempDir(t);
  for (const name of ['deploy', 'dist/src', 'docs', 'lua', 'package.json', 'src'])
    await cp(new URL(name, ROOT), join(tree, name), { recursive: true });
  const pack = async (): Promise<string[]> => {
    const { stdout } = await exec('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: tree });
    return JSON.parse(stdout)[0].files.map(({ path }: { path: string }) => path);
  };
  const ours = await pack();
  for (const folder of new Set(ours.map((path) => dirname(path))))
    for (const name of NOT_OURS) await writeFile(join(tree, folder, name), 'secret');
  t.same(await pack(), ours);
  const deploy = await readdir(new URL('deploy', ROOT), { recursive: true, withFileTypes: true });
  const files = deploy.filter((entry) => entry.isFile() && !entry.name.endsWith('.env'));
  const paths = files.map(({ parentPath, name }) => relative(fileURLToPath(ROOT), join(parentPath, name)));
  t.same(ours.filter((path) => path.startsWith('deploy/')).sort(), paths.sort());
  t.match(readFileSync(new URL('.gitignore', ROOT), 'utf8'), /^\*\.env$/m);
});

async function sizeOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(async (file) => (await stat(join(file.parentPath, file.name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly hasInstallScript?: boolean;
  readonly dev?: boolean;
}

const readJson = (file: string) => JSON.parse(readFileSync(new URL(file, ROOT), 'utf8'));
const manifest = readJson('package.json');
const lock = readJson('package-lock.json') as { packages: Readonly<Record<string, Locked>> };
const { '': root, ...packages } = lock.packages;
const { dependencies, optionalDependencies, devDependencies } = manifest;
const asked: Readonly<Record<string, string>> = {
  ...dependencies,
  ...optionalDependencies,
  ...devDependencies,
};

t.test('every version in package.json is exact, and equal to the locked one', (t) => {
  for (const [name, wanted] of Object.entries(asked)) {
    t.match(wanted, /^(npm:[@a-z/-]+@)?\d+\.\d+\.\d+$/, name);
    t.equal(packages[`node_modules/${name}`]?.version, wanted.replace(/^npm:.*@/, ''), name);
  }
  t.match(root, { dependencies, optionalDependencies, devDependencies });
  t.end();
});

t.test('the lock file has the digest of each package, and no address of a registry', (t) => {
  for (const [path, { integrity, resolved, optional, os }] of Object.entries(packages)) {
    t.equal(resolved, undefined, path);
    // An optional binary for another system is never installed here, so its digest may be missing.
    const isElsewhere = optional === true && os !== undefined && !existsSync(new URL(path, ROOT));
    if (integrity !== undefined || !isElsewhere) t.match(integrity, /^sha512-[A-Za-z0-9+/]{86}==$/, path);
  }
  t.end();
});

t.test('chdb is the one optional package, and no package runs a script when it is installed', (t) => {
  t.same(Object.keys(optionalDependencies), ['chdb']);
  t.equal(packages['node_modules/chdb']?.optional, true);
  const scripted = Object.entries(packages).filter(
    ([, { hasInstallScript, dev }]) => hasInstallScript && !dev,
  );
  // Scarf's script would report the installation; package.json also switches it off. chdb's is `node -e ""`,
  // which does nothing.
  t.same(
    scripted.map(([path]) => path),
    ['node_modules/@scarf/scarf', 'node_modules/chdb'],
  );
  t.same(manifest.scarfSettings, { enabled: false });
  t.match(readFileSync(new URL('Makefile', ROOT), 'utf8'), 'npm ci --ignore-scripts');
  t.end();
});
