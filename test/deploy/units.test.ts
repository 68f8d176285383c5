// The units of deploy/systemd are confined and get their own settings alone; a real systemd runs them through reboot and upgrade.

import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { SETTINGS } from '../../src/config.js';
import { asDashboard } from '../../src/extras/embedded/clickhouse/users.js';
import { needsNginx, startNginx } from '../cli/nginx.js';
import { tempDir, until } from '../cli/wishmeter.js';
import { Load } from '../faults/load.js';
import { KEY, MOST_PATIENT_MS } from '../faults/service.js';
import { startReadable } from '../harness/clickhouse.js';
import { ask } from '../harness/client.js';
import { needsPrograms } from '../harness/needs.js';
import { check, settingsOf, startRedisServer, UNITS, unit } from './programs.js';
import { needsSystemd, startSystemd } from './systemd.js';

/** deploy/README.md installs it here; it does not exist on this machine. */
const PROGRAM = '/opt/wishmeter/current/node_modules/.bin/wishmeter';
/** The highest exposure allowed, of 100. A service without hardening has 96. */
const MOST_EXPOSED = '16';

t.test(
  'systemd accepts the units, and rates them as confined',
  needsPrograms('systemd-analyze'),
  async (t) => {
    const dir = await tempDir(t);
    for (const name of Object.values(UNITS)) {
      const file = join(dir, name.replace('@', '@8080'));
      await writeFile(file, unit(name).replace(PROGRAM, process.execPath));
      const verified = await check('systemd-analyze', ['verify', '--man=no', file]);
      // systemd before 254 ignores these two, and says so.
      const output = verified.output.replace(/^.*Unknown key (name )?'Restart(Steps|MaxDelaySec)'.*\n/gm, '');
      t.same({ ...verified, output }, { ok: true, output: '' }, name);
      const security = ['security', '--offline=true', `--threshold=${MOST_EXPOSED}`, file];
      const secured = await check('systemd-analyze', security);
      t.ok(secured.ok, secured.ok ? `${name} is confined` : secured.output);
    }
  },
);

t.test('each unit runs its command, with settings that this command reads', async (t) => {
  for (const [command, name] of Object.entries(UNITS)) {
    const text = unit(name);
    t.match(text, `\nExecStart=${PROGRAM} ${command}\n`);
    const [, environment = ''] = /^Environment=(.*)$/m.exec(text) ?? [];
    const names = environment.split(' ').map((pair) => pair.split('=')[0] ?? '');
    for (const setting of names)
      t.ok(setting === 'NODE_ENV' || settingsOf(command).includes(setting), `${name}: ${setting}`);
    const grace = Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]);
    t.ok(grace * 1_000 > Number(SETTINGS.DRAIN_MS.fallback) + 12_000, `${name}: ${grace} s to stop in`);
    t.match(text, /^StartLimitIntervalSec=0$/m, 'systemd never gives up');
    t.match(text, /^Restart=always$/m);
    t.match(text, /^RestartSteps=\d+\nRestartMaxDelaySec=\d+$/m);
    t.same(text.match(/^EnvironmentFile=.*$/gm), [`EnvironmentFile=/etc/wishmeter/${command}.env`]);
    const settings = settingsIn(`${command}.env.example`);
    t.ok(settings.includes('REDIS_URL'), command);
    for (const setting of settings) t.ok(settingsOf(command).includes(setting), `${command}: ${setting}`);
  }
  for (const setting of settingsIn('commands.env.example')) t.ok(Object.hasOwn(SETTINGS, setting), setting);
});

const settingsIn = (name: string): readonly string[] => unit(name).match(/^\w+(?==)/gm) ?? [];

/** The lines of docs/operations.md that restart all, for two `serve` on these ports. */
function upgradeOn(ports: readonly number[]): string {
  const [lines = ''] = /^ln -sfn 0\.2\.0 .*?^done$/ms.exec(readFileSync('docs/operations.md', 'utf8')) ?? [];
  return lines.replace('8080 8081', ports.join(' '));
}

t.test('under a real systemd', { ...needsSystemd(), ...needsNginx() }, async (whole) => {
  const t = whole;
  const folder = await tempDir(t);
  const system = await startSystemd(t);
  const clickhouse = await startReadable(t, 'wishmeter');
  const [redis, first, second, flush, dashboard] = await Promise.all(Array.from({ length: 5 }, freePort));
  const serves = [first, second].map((port) => ({ port: port as number, name: `wishmeter-serve@${port}` }));
  const ports = serves.map(({ port }) => port);
  const store = { REDIS_URL: `redis://127.0.0.1:${redis}`, HOST: '127.0.0.1' };
  const ofServe = { ...store, API_KEYS: KEY, REDIS_TIMEOUT_MS: MOST_PATIENT_MS, DRAIN_MS: '2000' };
  // The file wins over the unit's own port, which is one for the whole machine.
  const ofFlush = { ...store, CLICKHOUSE_URL: clickhouse.url, FLUSH_METRICS_PORT: String(flush) };
  const ofDashboard = {
    CLICKHOUSE_URL: asDashboard(clickhouse.url),
    DASHBOARD_TOKEN: 'a-token-0123456789',
    DASHBOARD_PORT: String(dashboard),
  };
  await system.configure('serve.env', ofServe);
  await system.configure('flush.env', ofFlush);
  await system.configure('deliver.env', store);
  await system.configure('dashboard.env', ofDashboard);
  const single = ['flush', 'deliver', 'dashboard'].map((command) => `wishmeter-${command}`);
  const names = [...single, ...serves.map(({ name }) => name)];
  const status = async (port = 0, path = '/readyz') =>
    (await ask(port, 'GET', path).catch(() => ({ status: 0 }))).status;
  const untilStatus = (wanted: number, port = 0, path?: string) =>
    until(`${port} answers ${wanted}`, async () => (await status(port, path)) === wanted, 60_000);
  const restartsOf = async (name: string) => Number(await system.show(name, 'NRestarts'));

  await t.test('all processes wait for Redis after a reboot, and then serve', async (t) => {
    t.same(await system.sh(`systemctl start ${names.join(' ')}`), { code: 0, output: '' });
    for (const port of [...ports, flush]) await untilStatus(200, port, '/healthz');
    for (const port of ports) t.equal(await status(port), 503);
    const server = await startRedisServer(folder, redis as number, []);
    whole.teardown(() => server.stop());
    for (const port of [...ports, flush, dashboard]) await untilStatus(200, port);
    for (const name of names) {
      t.equal(await system.show(name, 'ActiveState'), 'active', name);
      t.equal(await restartsOf(name), 0, `${name} was not started again`);
    }
  });

  await t.test('systemd starts a process again for ever if a wrong setting ends it', async () => {
    await system.configure('flush.env', { ...ofFlush, FLUSH_INTERVAL_MS: 'soon' });
    await system.sh('systemctl restart wishmeter-flush');
    await until('three starts', async () => (await restartsOf('wishmeter-flush')) > 2, 100_000);
    await system.configure('flush.env', ofFlush);
    await untilStatus(200, flush);
    await system.sh('systemctl kill --signal KILL wishmeter-flush');
    await untilStatus(0, flush);
    await untilStatus(200, flush);
  });

  const nginx = await startNginx(t, ports);
  const underLoad = async (t: Test, work: () => Promise<void>) => {
    const load = new Load({ port: nginx, key: KEY, seed: 1, connections: 8, restMs: 40 });
    try {
      await load.untilServed(50);
      await work();
      await load.untilServed(50);
    } finally {
      await load.stop();
    }
    t.same(Object.keys(load.answers), ['200'], `no request failed: ${load}`);
  };
  const versions = async () => {
    const all = await Promise.all(
      names.map(async (name) => {
        const pid = await system.show(name, 'MainPID');
        return (await system.sh(`tr '\\0' '\\n' </proc/${pid}/environ | grep ^VERSION=`)).output;
      }),
    );
    return [...new Set(all)];
  };

  await t.test('the upgrade of docs/operations.md fails no request', async (t) => {
    t.same(await versions(), ['VERSION=0.1.0\n']);
    await underLoad(t, async () => {
      t.same(await system.sh(upgradeOn(ports)), { code: 0, output: '' });
    });
    t.same(await versions(), ['VERSION=0.2.0\n'], 'every process is the new one');
  });

  await t.test('an upgrade with a wrong setting stops at the first process', async (t) => {
    const before = await system.show(serves[1]?.name ?? '', 'MainPID');
    await system.configure('serve.env', { ...ofServe, DRAIN_MS: 'long' });
    await underLoad(t, async () => {
      const short = upgradeOn(ports).replace('--retry 60', '--retry 3');
      t.match(await system.sh(short), { output: `${first} is not ready` });
    });
    t.equal(await status(first), 0, 'it does not start');
    t.equal(await status(second), 200);
    t.equal(await system.show(serves[1]?.name ?? '', 'MainPID'), before, 'and was left alone');
    await system.configure('serve.env', ofServe);
    await untilStatus(200, first);
  });

  await t.test('each unit ends well when it is stopped, and leaves no process', async (t) => {
    t.same(await system.sh(`systemctl stop ${names.join(' ')}`), { code: 0, output: '' });
    for (const name of names) {
      t.equal(await system.show(name, 'Result'), 'success', name);
      t.equal(await system.show(name, 'ExecMainStatus'), '0', name);
    }
    t.match(await system.sh('pgrep -fa /opt/wishmeter'), { code: 1 });
  });
});
