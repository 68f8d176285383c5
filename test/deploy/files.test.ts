// What is in deploy/: docker-compose takes compose.yaml, systemd the units, each process is bounded and confined, and settings
// are settings. What can be run without containers is run here: the image's health check, Redis with its arguments, nginx with
// its two upstreams.

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { COMMAND_LINES } from '../../src/commands/command-line.js';
import { SETTINGS } from '../../src/config.js';
import { needsNginx, startNginx } from '../cli/nginx.js';
import { restartUnderLoad, startServes } from '../cli/rolling-restart.js';
import { tempDir, until } from '../cli/wishmeter.js';
import { programPart } from '../faults/service.js';
import { needsPrograms } from '../harness/needs.js';
import { startStores } from '../harness/stores.js';
import { check, DEPLOY, parseYaml, startRedisServer } from './programs.js';

const ENV_EXAMPLE = readFileSync(join(DEPLOY, 'compose.env.example'), 'utf8');
const PREDEFINED = new Set(['COMPOSE_PROJECT_NAME', 'SHOP_URL']);

interface Service {
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Of docker-compose 1 a text. */
  readonly volumes?: readonly (string | { readonly source?: string })[];
  readonly [key: string]: unknown;
}

/** compose.yaml with these variables, as docker-compose reads it. */
async function compose(t: Test, variables: Readonly<Record<string, string>>) {
  const file = join(await tempDir(t), 'env');
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(file, lines.join(''));
  const { PATH, HOME } = process.env;
  return await check('docker-compose', ['--env-file', file, '-f', join(DEPLOY, 'compose.yaml'), 'config'], {
    env: { PATH, HOME },
  });
}

/** Every variable of the example, those without a value filled in. */
const VARIABLES = Object.fromEntries(
  [...ENV_EXAMPLE.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value]) => [
    name,
    value || 'sk_0123456789abcdef',
  ]),
);

t.test('compose.yaml', needsPrograms('docker-compose'), async (t) => {
  const { ok, output } = await compose(t, VARIABLES);
  t.ok(ok, ok ? 'taken' : output);
  const services: Readonly<Record<string, Service>> = parseYaml(output).services;
  const ours = Object.entries(services).filter(([name]) => /^(serve|flush)-/.test(name));

  t.test('has two of serve and of flush, with settings that there are', async (t) => {
    t.same(
      ours.map(([name, { command }]) => `${name} ${command.join(' ')}`),
      ['flush-1 flush', 'flush-2 flush', 'serve-1 serve', 'serve-2 serve'],
    );
    for (const [name, { environment = {} }] of ours)
      for (const setting of Object.keys(environment))
        t.ok(Object.hasOwn(SETTINGS, setting), `${name}: ${setting}`);
  });

  t.test('every container is bounded, confined and looked after', async (t) => {
    for (const [name, service] of Object.entries(services)) {
      t.match(
        { read_only: false, ...service },
        {
          restart: 'unless-stopped',
          cap_drop: ['ALL'],
          security_opt: ['no-new-privileges:true'],
          read_only: name !== 'clickhouse',
          logging: { options: { 'max-size': /./ } },
          deploy: { resources: { limits: { memory: /./ } } },
        },
        name,
      );
      // Those of ours have the image's.
      t.ok(service.image === 'wishmeter' || service.healthcheck, `${name} has a health check`);
      for (const volume of service.volumes ?? []) {
        const [file = ''] = typeof volume === 'string' ? volume.split(':') : [volume.source];
        t.ok(!file.startsWith('/') || existsSync(file), `${name}: ${file}`);
      }
    }
  });

  t.test('what has no value to start with is asked for; the example names every variable', async (t) => {
    const text = await readFile(join(DEPLOY, 'compose.yaml'), 'utf8');
    const required = new Set([...text.matchAll(/\$\{(\w+):\?/g)].map(([, name = '']) => name));
    t.ok(required.size > 3);
    // It names the first one only.
    const bare = await compose(t, {});
    t.notOk(bare.ok);
    t.match(bare.output, /set \w+ in \.env/);
    const optional = [...text.matchAll(/\$\{(\w+):-\}/g)].map(([, name = '']) => name);
    for (const name of [...required, ...optional]) t.ok(name in VARIABLES, name);
    for (const name of Object.keys(VARIABLES))
      t.ok(PREDEFINED.has(name) || required.has(name) || optional.includes(name), `${name} is read`);
  });

  t.test('Prometheus scrapes each process, with its token', needsPrograms('promtool'), async (t) => {
    const dir = await tempDir(t);
    const conf = (await readFile(join(DEPLOY, 'prometheus/prometheus.yaml'), 'utf8')).replaceAll(
      '/run/wishmeter/metrics-token',
      join(dir, 'token'),
    );
    await writeFile(join(dir, 'prometheus.yaml'), conf);
    await writeFile(join(dir, 'token'), 'x');
    await writeFile(join(dir, 'rules.yaml'), await readFile(join(DEPLOY, 'prometheus/rules.yaml')));
    const { ok, output } = await check('promtool', ['check', 'config', join(dir, 'prometheus.yaml')]);
    t.ok(ok, ok ? 'taken' : output);
    interface Job {
      readonly job_name: string;
      readonly static_configs: readonly { readonly targets: readonly string[] }[];
    }
    const jobs: readonly Job[] = parseYaml(conf).scrape_configs;
    const targets = jobs.flatMap(({ static_configs }) => static_configs.flatMap(({ targets }) => targets));
    for (const target of targets) t.ok((target.split(':')[0] as string) in services, target);
    const port = services['flush-1']?.environment?.['FLUSH_METRICS_PORT'];
    for (const [name] of ours)
      t.ok(targets.includes(`${name}:${name.startsWith('flush') ? port : SETTINGS.PORT.fallback}`), name);
  });

  t.test('Redis takes its arguments, and the replica follows it', async (t) => {
    const start = async (name: string, change: (argument: string) => string) => {
      const { command = [] } = services[name] ?? {};
      const dir = join(await tempDir(t), name);
      await mkdir(dir);
      const port = await freePort();
      const child = await startRedisServer(dir, port, command.slice(1).map(change));
      const client = new Redis({ port, host: '127.0.0.1' });
      t.teardown(async () => {
        client.disconnect();
        await child.stop();
      });
      return { port, client };
    };
    const config = async (client: Redis, name: string) => ((await client.config('GET', name)) as string[])[1];
    const master = await start('redis', (argument) => argument);
    await master.client.config('SET', 'repl-diskless-sync-delay', 0);
    const replica = await start('redis-replica', (argument) =>
      argument.replace('redis 6379', `127.0.0.1 ${master.port}`),
    );
    for (const { client } of [master, replica]) {
      t.equal(await config(client, 'appendonly'), 'yes');
      t.equal(await config(client, 'save'), '');
      t.equal(await config(client, 'maxmemory-policy'), 'noeviction');
    }
    t.equal(await config(master.client, 'maxmemory'), String(2 ** 31));
    await master.client.set('a', 'b');
    await until('the replica has it', async () => (await replica.client.get('a')) === 'b');
    // Its first append-only file is written by a process of its own, which must not be left behind.
    const writing = /aof_rewrite_(in_progress|scheduled):1/;
    await until('and in its file', async () => !writing.test(await replica.client.info('persistence')));
  });

  t.test('behind nginx no request fails while both are restarted in turn', needsNginx(), async (t) => {
    const ports = [await freePort(), await freePort()];
    const parts = await startServes(t, ports);
    const [, substitution = ''] = /sed '(.*?)'/.exec(services['nginx']?.command.at(-1) ?? '') ?? [];
    const nginx = await startNginx(t, 0, (conf) => {
      const text = execFileSync('sed', [substitution], { input: conf, encoding: 'utf8' });
      return ports.reduce((all, port, i) => all.replace(`serve-${i + 1}:8080`, `127.0.0.1:${port}`), text);
    });
    await restartUnderLoad(t, nginx, parts);
  });
});

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

const UNITS = {
  serve: 'wishmeter-serve@.service',
  flush: 'wishmeter-flush.service',
  deliver: 'wishmeter-deliver.service',
};
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
