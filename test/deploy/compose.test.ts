// compose.yaml: docker-compose takes the file, each container is bounded and confined, and what can be run without
// containers is run here: Redis with its arguments, nginx with its two upstreams.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { SETTINGS } from '../../src/config.js';
import { needsNginx, startNginx } from '../cli/nginx.js';
import { restartUnderLoad, startServes } from '../cli/rolling-restart.js';
import { tempDir, until } from '../cli/wishmeter.js';
import { needsPrograms } from '../harness/needs.js';
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
    const owners = ours.map(([, { environment }]) => environment?.['FLUSH_OWNER']).filter(Boolean);
    t.equal(new Set(owners).size, 2, 'each flush has a name of its own');
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
