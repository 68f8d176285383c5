// What the set-up does to the machine: it says so before it does it. `apt-get` here is a program that notes what had
// been said when it was called, since the real one must not be run by a test.

import { spawnSync } from 'node:child_process';
import { chmod, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const SCRIPT = fileURLToPath(new URL('../../.ci/apt-get-install', import.meta.url));

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
