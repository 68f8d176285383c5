// The units of systemd: systemd takes them, they are confined, and their settings are settings.

import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { COMMAND_LINES } from '../../src/commands/help.js';
import { SETTINGS } from '../../src/config.js';
import { tempDir } from '../cli/wishmeter.js';
import { needsPrograms } from '../harness/needs.js';
import { check, DEPLOY } from './programs.js';

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
