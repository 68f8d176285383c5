// A real systemd as process 1 of its own namespaces, with the units of deploy/systemd and this program where deploy/README.md
// installs it. The network is the machine's. Needs root; its cgroups are below one of its own and go with it.

import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { tempDir, until } from '../cli/wishmeter.js';
import { needs, needsNamespaces } from '../harness/needs.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const SYSTEMD = '/usr/lib/systemd/systemd';
const BOOT_MS = 120_000;
const NAMESPACES = ['--mount', '--pid', '--uts', '--ipc'];

// Process 1. The disk is read-only, and only our units are there: systemd's own would set up, and tidy up, the machine. A unit
// without a limit gives up at the third start within an hour. `/opt/wishmeter` has two versions, which are the same.
const BOOT = `set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
cp -a /etc /run
rm -rf /run/etc/systemd /run/etc/tmpfiles.d
mkdir -p /run/etc/systemd/system /run/etc/wishmeter
printf '[Manager]\\nDefaultStartLimitIntervalSec=1h\\nDefaultStartLimitBurst=2\\n' >/run/etc/systemd/system.conf
cp "$ROOT"/deploy/systemd/*.service /run/etc/systemd/system
for target in sysinit basic shutdown network-online multi-user; do
  printf '[Unit]\\nDefaultDependencies=no\\n' >/run/etc/systemd/system/$target.target
done
mount --bind "$DIR" /run/etc/wishmeter
mount --rbind /run/etc /etc
mount -t tmpfs tmpfs /opt
for version in 0.1.0 0.2.0; do
  folder=/opt/wishmeter/$version/node_modules
  mkdir -p $folder/.bin $folder/wishmeter
  mount -o bind,ro "$ROOT" $folder/wishmeter
  printf '#!/bin/sh\\nVERSION=%s exec /opt/wishmeter/node %s "$@"\\n' \
    $version $folder/wishmeter/dist/src/main.js >$folder/.bin/wishmeter
  chmod 755 $folder/.bin/wishmeter
done
touch /opt/wishmeter/node
mount -o bind,ro "$NODE" /opt/wishmeter/node
ln -s 0.1.0 /opt/wishmeter/current
for folder in /usr/lib/systemd/system /usr/lib/systemd/system-generators /tmp /var/tmp; do
  mount -t tmpfs -o mode=1777 tmpfs $folder
done
for folder in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
  if [ -e $folder/cgroup.procs ]; then mkdir $folder/$NAME; echo $$ >$folder/$NAME/cgroup.procs; fi
done
until mount -o remount,bind,ro / 2>/dev/null; do sleep 0.1; done # busy while an access time is written
container=test exec ${SYSTEMD} --system --unit=basic.target --log-target=null --show-status=no`;

export const needsSystemd = () => ({
  ...needs(existsSync(SYSTEMD) ? undefined : 'no systemd here'),
  ...needsNamespaces(...NAMESPACES),
});

export interface Systemd {
  sh(script: string): Promise<{ readonly code: number; readonly output: string }>;
  configure(file: string, settings: Readonly<Record<string, string>>): Promise<void>;
  show(unit: string, property: string): Promise<string>;
}

export async function startSystemd(t: Test): Promise<Systemd> {
  const dir = await tempDir(t);
  const NAME = `wm-test-${process.pid}`;
  const env = { PATH: process.env.PATH, DIR: dir, NAME, ROOT, NODE: process.execPath };
  const own = ['--fork', '--kill-child', '--mount-proc', 'bash', '-c', BOOT];
  const unshare = spawn('unshare', [...NAMESPACES, ...own], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  unshare.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = once(unshare, 'exit');
  t.teardown(async () => {
    unshare.kill('SIGKILL');
    await ended;
    const args = ['-depth', '-type', 'd', '-path', `*/${NAME}*`, '-exec', 'rmdir', '{}', ';'];
    const remove = () => spawnSync('find', ['/sys/fs/cgroup', ...args]);
    await until('its cgroups are gone', () => remove().stderr.length === 0);
  });
  const pid = await until('process 1 is there', async () => {
    if (unshare.exitCode !== null) throw new Error(stderr);
    return (await readFile(`/proc/${unshare.pid}/task/${unshare.pid}/children`, 'utf8')).trim() || undefined;
  });
  const sh: Systemd['sh'] = (script) => {
    const args = ['-t', pid, '-m', '-p', '-u', '-i', 'bash', '--norc', '-c', script];
    return promisify(execFile)('nsenter', args, { env: { PATH: process.env.PATH } }).then(
      ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
      (error) => ({ code: error.code, output: `${error.stdout}${error.stderr}` }),
    );
  };
  const answers = async () => {
    if (unshare.exitCode !== null) throw new Error(stderr);
    return (await sh('systemctl is-active basic.target')).code === 0;
  };
  await until('systemd answers', answers, BOOT_MS).catch(async (error) => {
    t.comment((await sh('ps -e -o pid,stat,wchan,args; systemctl --no-pager list-jobs')).output);
    throw error;
  });
  return {
    sh,
    async configure(file, settings) {
      const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
      await writeFile(join(dir, file), lines.join(''), { mode: 0o600 });
    },
    show: async (unit, property) => (await sh(`systemctl show ${unit} -p ${property} --value`)).output.trim(),
  };
}
