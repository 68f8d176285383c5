// The image and the units of systemd: no Docker is here to build the image, but its health check is run; systemd takes the
// units, they are confined, and their settings are settings.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { COMMAND_LINES } from '../../src/commands/help.js';
import { SETTINGS } from '../../src/config.js';
import { tempDir } from '../cli/wishmeter.js';
import { programPart } from '../faults/service.js';
import { needsPrograms } from '../harness/needs.js';
import { startStores } from '../harness/stores.js';
import { check, DEPLOY } from './programs.js';

t.test("the image's health check sees serve and flush", async (t) => {
  const dockerfile = await readFile(join(DEPLOY, 'Dockerfile'), 'utf8');
  const [, json = ''] = /HEALTHCHECK (?:.*\\\n)*\s+CMD (\[.*\])$/m.exec(dockerfile) ?? [];
  const [program, ...args] = JSON.parse(json) as [string, ...string[]];
  t.equal(program, 'node');
  const healthy = (env: NodeJS.ProcessEnv) => spawnSync(process.execPath, args, { env }).status === 0;
  const stores = await startStores(t, ['wishmeter']);
  const [port, figures] = [String(await freePort()), String(await freePort())];
  const env = { ...stores.env, REDIS_TIMEOUT_MS: '900' };
  const parts = [
    programPart('serve', 'serve', { ...env, PORT: port }),
    programPart('flush', 'flush', { ...env, FLUSH_METRICS_PORT: figures }),
  ];
  t.teardown(() => Promise.all(parts.map((part) => part.stop())));
  t.notOk(healthy({ PORT: port }), 'no server listens');
  for (const part of parts) await part.start();
  t.ok(healthy({ PORT: port }), 'serve');
  t.ok(healthy({ FLUSH_METRICS_PORT: figures, PORT: '1' }), 'flush');
});

t.test('the image has a Node and a glibc that the packed binary is for, and is not of root', async (t) => {
  const dockerfile = await readFile(join(DEPLOY, 'Dockerfile'), 'utf8');
  const version = (await readFile(join(DEPLOY, '../.node-version'), 'utf8')).trim();
  t.match(dockerfile, `ARG NODE_IMAGE=node:${version}-trixie-slim\n`);
  const [, last = ''] = dockerfile.split(/^FROM .*$/m).slice(-2);
  t.match(last, '\nUSER node\n');
  // The folder that it is built from has nothing else in it for Docker.
  const ignored = await readFile(join(DEPLOY, 'Dockerfile.dockerignore'), 'utf8');
  const [copied = ''] = /wishmeter-\S*tgz/.exec(dockerfile) ?? [];
  t.same(ignored.match(/^[^#\n]+$/gm), ['*', `!${copied}`]);
});

const UNITS = { serve: 'wishmeter-serve@.service', flush: 'wishmeter-flush.service' };
/** Where deploy/README.md installs it, which is not on this machine. */
const PROGRAM = '/opt/wishmeter/current/node_modules/.bin/wishmeter';
/** Of 100. A service without any hardening has 96. */
const MOST_EXPOSED = '16';

const unit = (name: string) => readFileSync(join(DEPLOY, 'systemd', name), 'utf8');

t.test('systemd takes the units, and finds them confined', needsPrograms('systemd-analyze'), async (t) => {
  const dir = await tempDir(t);
  for (const name of Object.values(UNITS)) {
    const file = join(dir, name.replace('@', '@8080'));
    await writeFile(file, unit(name).replace(PROGRAM, process.execPath));
    const verified = await check('systemd-analyze', ['verify', '--man=no', file]);
    t.same(verified, { ok: true, output: '' }, name);
    const security = ['security', '--offline=true', `--threshold=${MOST_EXPOSED}`, file];
    const { ok, output } = await check('systemd-analyze', security);
    t.ok(ok, ok ? `${name} is confined` : output);
  }
});

t.test('each runs its command, with settings that this command reads', async (t) => {
  for (const [command, name] of Object.entries(UNITS)) {
    const text = unit(name);
    t.match(text, `\nExecStart=${PROGRAM} ${command}\n`);
    const [, environment = ''] = /^Environment=(.*)$/m.exec(text) ?? [];
    const names = environment.split(' ').map((pair) => pair.split('=')[0] ?? '');
    const known: readonly string[] = COMMAND_LINES[command as keyof typeof UNITS].settings;
    for (const setting of names)
      t.ok(setting === 'NODE_ENV' || known.includes(setting), `${name}: ${setting}`);
    const grace = Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]);
    t.ok(grace * 1_000 > Number(SETTINGS.DRAIN_MS.fallback) + 12_000, `${name}: ${grace} s to stop in`);
  }
  const lines = unit('env.example').match(/^\w+(?==)/gm) ?? [];
  t.ok(lines.length > 5);
  for (const setting of lines) t.ok(Object.hasOwn(SETTINGS, setting), `env.example: ${setting}`);
});
