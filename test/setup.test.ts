// What the set-up does to the machine: it says so before it does it. `apt-get` here is a program that notes what had
// been said when it was called, since the real one must not be run by a test.

import { spawnSync } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { needsPrograms } from './harness/needs.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SCRIPT = join(ROOT, '.ci/apt-get-install');

t.test('what is about to be installed with apt-get is said before', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'wm-setup-'));
  t.teardown(() => rm(dir, { recursive: true }));
  const said = join(dir, 'said');
  const programs = {
    'apt-get': `#!/bin/sh\necho "$*" >>'${dir}/called'\n[ -e '${dir}/before' ] || cat '${said}' >'${dir}/before'\n`,
    id: '#!/bin/sh\necho 0\n',
  };
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(join(dir, name), text);
    await chmod(join(dir, name), 0o755);
  }
  const out = await open(said, 'w');
  const { status } = spawnSync(SCRIPT, ['redis-server'], {
    env: { PATH: `${dir}:${process.env.PATH}` },
    stdio: ['ignore', out.fd, 'inherit'],
  });
  await out.close();
  t.equal(status, 0);
  t.match(await readFile(join(dir, 'called'), 'utf8'), /install .*redis-server/);
  const before = await readFile(join(dir, 'before'), 'utf8');
  t.equal(
    before,
    'About to install redis-server on this machine: apt-get install --no-install-recommends redis-server\n',
  );
});

/** A folder with the Makefile, and before PATH a `node` and a glibc of those versions and an `npm` that notes its calls. */
async function madeWith(t: Test, version: string, glibc = '2.41') {
  const dir = await mkdtemp(join(tmpdir(), 'wm-make-'));
  t.teardown(() => rm(dir, { recursive: true }));
  for (const entry of ['Makefile', '.ci']) await cp(join(ROOT, entry), join(dir, entry), { recursive: true });
  for (const file of ['package.json', 'package-lock.json', 'tsconfig.json'])
    await writeFile(join(dir, file), '{}');
  const programs = {
    node: `echo v${version}`,
    getconf: `echo glibc ${glibc}`,
    npm: `echo "$*" >>'${dir}/npm-called'; exit 1`,
  };
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(join(dir, name), `#!/bin/sh\n${text}\n`);
    await chmod(join(dir, name), 0o755);
  }
  const { status, stderr } = spawnSync('make', ['build'], {
    cwd: dir,
    env: { PATH: `${dir}:${process.env.PATH}` },
    encoding: 'utf8',
  });
  return { status, stderr, installs: (await readdir(dir)).includes('npm-called') };
}

t.test(
  'a Node that has no binary is refused before anything is installed',
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
      t.ok(
        others.every((line) => line.startsWith('make: ')),
        'in one sentence',
      );
      t.notOk(installs, `${version}: npm is not called`);
    }
    for (const [version, glibc] of [
      ['20.12.0', '2.36'],
      ['22.0.0', '2.36'],
      ['20.12.0', '2.41'],
      ['22.0.0', '2.41'],
      ['24.0.0', '2.38'],
      ['24.0.0', '2.41'],
    ] as const)
      t.ok((await madeWith(t, version, glibc)).installs, `Node ${version}, glibc ${glibc}: goes on to npm`);
  },
);

t.test('.node-version is one that is taken', async (t) => {
  const version = (await readFile(join(ROOT, '.node-version'), 'utf8')).trim();
  t.ok((await madeWith(t, `${version}.0.0`)).installs);
});

t.test('test-redis runs the tests with the server that it is given, and without one none', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'wm-setup-'));
  t.teardown(() => rm(dir, { recursive: true }));
  const programs = { 'valkey-server': 'echo This one', 'node_modules/.bin/tap': 'redis-server; echo "$*"' };
  await mkdir(join(dir, 'node_modules/.bin'), { recursive: true });
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(join(dir, name), `#!/bin/sh\n${text}\n`);
    await chmod(join(dir, name), 0o755);
  }
  const run = (server: string) =>
    spawnSync(join(ROOT, '.ci/test-redis'), [server], { cwd: dir, encoding: 'utf8' });
  t.match(run(join(dir, 'valkey-server')), {
    status: 0,
    stdout: /^This one\nThis one\n.*dist\/test\/redis\/.*dist\/test\/wishlist\//,
  });
  for (const server of ['', '/no/such/server', dir])
    t.match(run(server), { status: 2, stdout: '', stderr: /^SERVER must be the path/ }, server);
});
