// `make` says beforehand what it installs on the machine (`apt-get` here only notes its calls); a release
// needs a ready tree.

import { spawnSync } from 'node:child_process';
import { cp, mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { tempDir } from './cli/wishmeter.js';
import { needsPrograms } from './harness/needs.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SCRIPT = join(ROOT, '.ci/apt-get-install');

async function programs(dir: string, texts: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(texts))
    await writeFile(join(dir, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
}

t.test('.ci/apt-get-install says what it installs before it calls apt-get', async (t) => {
  const dir = await tempDir(t);
  const said = join(dir, 'said');
  await programs(dir, {
    'apt-get': `echo "$*" >>'${dir}/called'\n[ -e '${dir}/before' ] || cat '${said}' >'${dir}/before'`,
    id: 'echo 0',
  });
  const out = await open(said, 'w');
  const { status } = spawnSync(SCRIPT, ['redis-server'], {
    env: { PATH: `${dir}:${process.env.PATH}` },
    stdio: ['ignore', out.fd, 'inherit'],
  });
  await out.close();
  t.equal(status, 0);
  t.match(await readFile(join(dir, 'called'), 'utf8'), /install .*redis-server/);
  t.equal(
    await readFile(join(dir, 'before'), 'utf8'),
    'About to install redis-server on this machine: apt-get install --no-install-recommends redis-server\n',
  );
});

async function madeWith(t: Test, version: string, glibc = '2.41') {
  const dir = await tempDir(t);
  for (const entry of ['Makefile', '.ci']) await cp(join(ROOT, entry), join(dir, entry), { recursive: true });
  for (const file of ['package.json', 'package-lock.json', 'tsconfig.json'])
    await writeFile(join(dir, file), '{}');
  await programs(dir, {
    node: `echo v${version}`,
    getconf: `echo glibc ${glibc}`,
    npm: `echo "$*" >>'${dir}/npm-called'; exit 1`,
  });
  const { status, stderr } = spawnSync('make', ['build'], {
    cwd: dir,
    env: { PATH: `${dir}:${process.env.PATH}` },
    encoding: 'utf8',
  });
  return { status, stderr, installs: (await readdir(dir)).includes('npm-called') };
}

t.test(
  'make build refuses a Node without a binary of uWebSockets.js before it installs anything',
  needsPrograms('make'),
  async (t) => {
    const refused: readonly (readonly [version: string, glibc: string, sentence: RegExp])[] = [
      ['18.20.0', '2.41', /needs Node 24.*this is v18\.20\.0\..*nvm install 24/],
      ['20.11.1', '2.36', /needs Node 24.*this is v20\.11\.1\..*nvm install 22/],
      ['21.7.0', '2.41', /no binary for Node v21\.7\.0: use Node 24/],
      ['26.0.0', '2.36', /no binary for Node v26\.0\.0: use Node 22/],
      ['24.1.0', '2.36', /^uWebSockets\.js for Node 24 needs glibc 2\.38 .*has 2\.36: use Node 22/],
      ['24.1.0', '2.37', /^uWebSockets\.js for Node 24 needs glibc 2\.38 /],
    ];
    for (const [version, glibc, sentence] of refused) {
      const { status, stderr, installs } = await madeWith(t, version, glibc);
      t.not(status, 0, version);
      const [first = '', ...others] = stderr.trim().split('\n');
      t.match(first, sentence);
      const isOneSentence = others.every((line) => line.startsWith('make: '));
      t.ok(isOneSentence, stderr);
      t.notOk(installs, `${version}: npm is not called`);
    }
    const own = `${(await readFile(join(ROOT, '.node-version'), 'utf8')).trim()}.0.0`;
    for (const [version, glibc] of [
      ['20.12.0', '2.36'],
      ['22.0.0', '2.36'],
      ['24.0.0', '2.38'],
      [own, '2.41'],
    ] as const)
      t.ok((await madeWith(t, version, glibc)).installs, `Node ${version}, glibc ${glibc}: goes on to npm`);
  },
);

t.test('a release needs a clean tree, a changelog and a new version', needsPrograms('git'), async (t) => {
  const dir = await tempDir(t);
  const git = (...args: readonly string[]) => {
    const who = ['-c', 'user.name=t', '-c', 'user.email=t@t.example'];
    const { status, stderr } = spawnSync('git', [...who, ...args], { cwd: dir, encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
  };
  const release = () => {
    const env = { ...process.env, DRY: '1' };
    return spawnSync(join(dir, '.ci/release'), { env, encoding: 'utf8' });
  };
  await cp(join(ROOT, '.ci'), join(dir, '.ci'), { recursive: true });
  await writeFile(join(dir, 'package.json'), '{"version":"7.0.0"}');
  await writeFile(join(dir, 'CHANGELOG.md'), '## Unreleased\n\n## 7.0.0-beta\n');
  git('init', '--quiet');
  git('add', '.');
  git('commit', '--quiet', '-m', 'a');

  t.match(release(), { status: 1, stderr: 'CHANGELOG.md has no section "## 7.0.0"' });
  await writeFile(join(dir, 'CHANGELOG.md'), '## Unreleased\n\n## 7.0.0\n');
  t.match(release(), { status: 1, stderr: 'not committed' });
  git('commit', '--quiet', '-a', '-m', 'b');
  t.match(release(), { status: 0, stdout: 'Releasing v7.0.0\n' });
  git('tag', '-a', 'v7.0.0', '-m', 'c');
  t.match(release(), { status: 1, stderr: 'v7.0.0 is there already' });
});

t.test(
  'make sql asks the database of a running demo, unless DATA_DIR is set',
  needsPrograms('make'),
  async (t) => {
    const dir = await tempDir(t);
    await cp(join(ROOT, 'Makefile'), join(dir, 'Makefile'));
    await mkdir(join(dir, 'dist'));
    await programs(dir, { node: 'echo "asked $DATA_DIR: $*"' });
    const asked = async (demo: number | undefined, env: NodeJS.ProcessEnv = {}) => {
      if (demo) await writeFile(join(dir, 'dist/.demo'), `${demo} /tmp/of-the-demo\n`);
      const { stdout } = spawnSync('make', ['--assume-old=build', 'sql', 'Q=SELECT 1'], {
        cwd: dir,
        env: { PATH: `${dir}:${process.env.PATH}`, ...env },
        encoding: 'utf8',
      });
      return stdout.trim();
    };
    const command = 'node_modules/.bin/wishmeter sql SELECT 1';
    t.equal(await asked(undefined), `asked : ${command}`);
    t.equal(await asked(process.pid), `asked /tmp/of-the-demo: ${command}`);
    t.equal(await asked(process.pid, { DATA_DIR: 'data' }), `asked data: ${command}`);
    const { pid } = spawnSync('true');
    t.equal(await asked(pid), `asked : ${command}`, 'of a demo that was killed nothing is left');
  },
);
