// `make release` refuses a tree that is not ready, before it spends half an hour on tests.

import { spawnSync } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { needsPrograms } from './harness/needs.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

t.test(
  'a release needs a clean tree, a section in the changelog and a new version',
  needsPrograms('git'),
  async (t) => {
    const dir = await mkdtemp(join(tmpdir(), 'wm-release-'));
    t.teardown(() => rm(dir, { recursive: true, force: true }));
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
  },
);

t.test('the version of package.json is in the changelog', async (t) => {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  t.match(
    await readFile(join(ROOT, 'CHANGELOG.md'), 'utf8'),
    new RegExp(`^## ${version.replaceAll('.', '\\.')}$`, 'm'),
  );
});
