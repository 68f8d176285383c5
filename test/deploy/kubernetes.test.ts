// deploy/kubernetes fits Kubernetes' own types and the settings; each process answers its probes and signals as process 1.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { SETTINGS } from '../../src/config.js';
import { asDashboard } from '../../src/extras/embedded/clickhouse/users.js';
import { MAIN, tempDir, until } from '../cli/wishmeter.js';
import { KEY } from '../faults/service.js';
import { startReadable } from '../harness/clickhouse.js';
import { ask } from '../harness/client.js';
import { needsNamespaces } from '../harness/needs.js';
import { check, DEPLOY, parseYaml, settingsOf, startRedisServer, UNITS, unit } from './programs.js';

const PACKAGES = fileURLToPath(new URL('../../../node_modules', import.meta.url));
const FOLDER = join(DEPLOY, 'kubernetes');
const COMMANDS = Object.keys(UNITS) as (keyof typeof UNITS)[];

interface Variable {
  readonly name: string;
  readonly value: string;
}
type Probe = { readonly httpGet: { readonly path: string; readonly port: string } };
// biome-ignore lint/suspicious/noExplicitAny: the types are checked by tsc
const manifestsOf = (file: string): any[] =>
  readFileSync(join(FOLDER, file), 'utf8')
    .split(/^---$/m)
    .map((text) => parseYaml(text));
const ofKind = (command: string, kind: string) =>
  manifestsOf(`${command}.yaml`).find((manifest) => manifest.kind === kind);
const podOf = (command: string) => ofKind(command, 'Deployment').spec.template;
const containerOf = (command: string) => podOf(command).spec.containers[0];

t.test("every manifest fits Kubernetes' own types", async (t) => {
  const files = readdirSync(FOLDER);
  t.same(files.sort(), COMMANDS.map((command) => `${command}.yaml`).sort());
  const dir = await tempDir(t);
  await symlink(PACKAGES, join(dir, 'node_modules'));
  const checked = { strict: true, noEmit: true, skipLibCheck: true };
  const compilerOptions = { ...checked, lib: ['es2022'], types: [], moduleResolution: 'node10' };
  const options = { compilerOptions, files: ['manifests.ts', 'misspelt.ts'] };
  await writeFile(join(dir, 'tsconfig.json'), JSON.stringify(options));
  const all = files.flatMap(manifestsOf);
  const modules: Readonly<Record<string, string>> = { v1: 'core/v1' };
  const lines = all.map((manifest, i) => {
    const module = modules[manifest.apiVersion] ?? manifest.apiVersion;
    return `export const m${i}: import('kubernetes-types/${module}').${manifest.kind} = ${JSON.stringify(manifest)};\n`;
  });
  await writeFile(join(dir, 'manifests.ts'), lines.join(''));
  await writeFile(join(dir, 'misspelt.ts'), lines.join('').replace('"periodSeconds"', '"periodSecond"'));
  const { output } = await check(process.execPath, [join(PACKAGES, 'typescript/bin/tsc'), '-p', dir]);
  t.match(output, /misspelt\.ts\(.*'"periodSecond"' does not exist in type 'Probe'/);
  t.notMatch(output, 'manifests.ts');
});

t.test('the manifests agree with each other, with the settings and with the env files', (t) => {
  for (const command of COMMANDS) {
    const deployment = ofKind(command, 'Deployment');
    const { args, env = [], envFrom, ports = [], ...container } = containerOf(command);
    const { labels, annotations = {} } = podOf(command).metadata;
    t.same(args, [command]);
    t.same(deployment.spec.selector.matchLabels, labels, `${command}: its Deployment has its pods`);
    for (const kind of ['Service', 'PodDisruptionBudget']) {
      const selector = ofKind(command, kind)?.spec.selector;
      if (selector) t.same(selector.matchLabels ?? selector, labels, `${command}: ${kind}`);
    }
    t.equal(deployment.spec.replicas > 1, ofKind(command, 'PodDisruptionBudget') !== undefined);
    t.equal(['serve', 'dashboard'].includes(command), ofKind(command, 'Service') !== undefined);
    t.same(envFrom, [{ secretRef: { name: `wishmeter-${command}` } }], 'its Secret is of its env file');
    t.match(unit(`${command}.env.example`), 'REDIS_URL=');
    for (const { name } of env) t.ok(settingsOf(command).includes(name), `${command}: ${name}`);
    for (const probe of [container.readinessProbe, container.livenessProbe])
      t.equal(probe?.httpGet.port, ports[0]?.name, `${command} is asked where it listens`);
    const listens = env.find(({ name }: Variable) =>
      /^(PORT|FLUSH_METRICS_PORT|DASHBOARD_PORT)$/.test(name),
    )?.value;
    t.equal(listens, ports[0] && String(ports[0].containerPort));
    if (annotations['prometheus.io/scrape']) t.equal(annotations['prometheus.io/port'], listens);
    t.match(podOf(command).spec, {
      enableServiceLinks: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    });
    const confined = { readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } };
    t.match(container, { securityContext: confined });
    const [, pause = '0'] = container.lifecycle?.preStop.exec.command ?? [];
    const stopMs = Number(pause) * 1_000 + Number(SETTINGS.DRAIN_MS.fallback) + 12_000;
    t.ok(podOf(command).spec.terminationGracePeriodSeconds * 1_000 > stopMs, `${command} has time to stop`);
  }
  t.end();
});

/** A process that is process 1 of its own namespace, as in a container without an init. */
async function startPod(t: Test, env: NodeJS.ProcessEnv, args: readonly string[]) {
  const own = ['--pid', '--fork', '--mount-proc', '--kill-child', process.execPath, MAIN, ...args];
  const unshare: ChildProcess = spawn('unshare', own, { env: { PATH: process.env.PATH, ...env } });
  let output = '';
  for (const stream of [unshare.stdout, unshare.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const ended = once(unshare, 'close').then(([code]) => code as number);
  t.teardown(async () => {
    unshare.kill('SIGKILL');
    await ended;
  });
  const children = `/proc/${unshare.pid}/task/${unshare.pid}/children`;
  const pid = await until('it is there', async () =>
    Number(await readFile(children, 'utf8').catch(() => '')),
  );
  return { ended, output: () => output, signal: (name: NodeJS.Signals) => process.kill(pid, name) };
}

t.test('processes as process 1, with their manifests', needsNamespaces('--pid'), async (t) => {
  const clickhouse = await startReadable(t, 'wishmeter');
  const folder = join(await tempDir(t), 'redis');
  await mkdir(folder);
  const redisPort = await freePort();
  const REDIS_URL = `redis://127.0.0.1:${redisPort}`;
  const here: Readonly<Record<string, string>> = {
    REDIS_URL,
    CLICKHOUSE_URL: clickhouse.url,
    API_KEYS: KEY,
    METRICS_TOKEN: 'a-token-0123456789',
    DASHBOARD_TOKEN: 'a-token-0123456789',
  };
  const environmentOf = async (command: string, changed: NodeJS.ProcessEnv = {}) => {
    const port = String(await freePort());
    const all: Record<string, string> = {};
    for (const [, name = '', value = ''] of unit(`${command}.env.example`).matchAll(/^(\w+)=(.*)$/gm))
      all[name] = here[name] ?? value;
    // What listens at 0.0.0.0 in a container listens at a free port of loopback here.
    for (const { name, value } of containerOf(command).env ?? [])
      all[name] = /PORT$/.test(name) ? port : value;
    all['HOST'] = '127.0.0.1';
    for (const name of Object.keys(all)) if (!settingsOf(command).includes(name)) delete all[name];
    const reader = command === 'dashboard' ? { CLICKHOUSE_URL: asDashboard(clickhouse.url) } : {};
    return { port: Number(port), env: { ...all, ...reader, NODE_ENV: 'production', ...changed } };
  };
  const probe = async (port: number, { httpGet: { path } }: Probe) => {
    const { status = 0 } = await ask(port, 'GET', path).catch(() => ({ status: 0 }));
    return status >= 200 && status < 400;
  };

  await t.test('a wrong setting ends serve as process 1', async (t) => {
    const { env } = await environmentOf('serve', { KEY_PREFIX: 'not{a}prefix' });
    const pod = await startPod(t, env, containerOf('serve').args);
    t.equal(await pod.ended, 1);
    t.match(pod.output(), /KEY_PREFIX/);
  });

  const started = COMMANDS.map(async (command) => {
    const { port, env } = await environmentOf(command);
    const container = containerOf(command);
    return { command, port, container, pod: await startPod(t, env, container.args) };
  });
  const pods = await Promise.all(started);
  await t.test('each process without Redis is live and not ready', async (t) => {
    for (const { command, port, container } of pods) {
      const { livenessProbe, readinessProbe } = container;
      if (!livenessProbe || !readinessProbe) continue;
      await until(`${command} lives`, () => probe(port, livenessProbe));
      if (command !== 'dashboard') t.notOk(await probe(port, readinessProbe), `${command} is not ready`);
    }
  });
  await t.test('each process becomes ready with Redis', async () => {
    const redis = await startRedisServer(folder, redisPort, []);
    t.teardown(() => redis.stop());
    for (const { command, port, container, pod } of pods)
      await until(`${command} is ready`, () =>
        container.readinessProbe ? probe(port, container.readinessProbe) : /"delivering"/.test(pod.output()),
      );
  });
  for (const { command, port, container, pod } of pods)
    await t.test(`${command} ends with 0 at SIGTERM`, async (t) => {
      pod.signal('SIGTERM');
      if (command === 'serve')
        await until('it takes itself out', async () => !(await probe(port, container.readinessProbe)));
      t.equal(await pod.ended, 0, pod.output());
    });
});
