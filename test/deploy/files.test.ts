// What is in deploy/: docker-compose takes compose.yaml, systemd the units, each process is bounded and confined, and settings
// are settings. What can be run without containers is run here, with the arguments and the environment that compose.yaml has:
// Redis and each of our processes with the image's health check, nginx with its two upstreams and before the dashboard.

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { ANALYST_TABLES } from '../../src/clickhouse/analyst-tables.js';
import { COMMAND_LINES, OF_START } from '../../src/commands/command-line.js';
import { readConfig, SETTINGS } from '../../src/config.js';
import { asDashboard } from '../../src/embedded/clickhouse/users.js';
import { ask } from '../cli/client.js';
import { needsNginx, startNginx } from '../cli/nginx.js';
import { restartUnderLoad, startServes } from '../cli/rolling-restart.js';
import { tempDir } from '../cli/wishmeter.js';
import { cookieOf, openDashboard, TOKEN } from '../dashboard/fixtures.js';
import { MOST_PATIENT_MS, programPart } from '../faults/service.js';
import { startApp } from '../harness/app.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { needsPrograms } from '../harness/needs.js';
import { startTestRedis } from '../harness/redis.js';
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

/** What compose.yaml decides: where its parts are. */
const FIXED = [
  'REDIS_URL',
  'CLICKHOUSE_URL',
  'HOST',
  'PORT',
  'DASHBOARD_PORT',
  'FLUSH_METRICS_PORT',
  'DATA_DIR',
];

const GIVEN: Readonly<Record<string, string>> = {
  PUBLISHABLE_KEYS: 'pk_0123456789abcdef',
  ALLOWED_ORIGINS: 'https://shop.example',
  SHOP_TIMEZONE: 'Europe/Berlin',
  RECEIVERS_PRIVATE: 'allow',
  SHOP_CURRENCY: 'EUR',
  IMAGE_HOSTS: 'cdn.shop.example',
};

/** Every variable of the example, those without a value filled in. */
const VARIABLES = Object.fromEntries(
  [...ENV_EXAMPLE.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value]) => [
    name,
    value || (GIVEN[name] ?? 'sk_0123456789abcdef'),
  ]),
);

const DOCKERFILE = readFileSync(join(DEPLOY, 'Dockerfile'), 'utf8');

/** By the health check of the image. */
function isHealthy(env: NodeJS.ProcessEnv): boolean {
  const [, json = ''] = /HEALTHCHECK (?:.*\\\n)*\s+CMD (\[.*\])$/m.exec(DOCKERFILE) ?? [];
  const [program, ...args] = JSON.parse(json) as string[];
  return program === 'node' && spawnSync(process.execPath, args, { env }).status === 0;
}

const settingsOf = (command = ''): readonly string[] => COMMAND_LINES[command as keyof typeof UNITS].settings;

t.test('compose.yaml', needsPrograms('docker-compose'), async (t) => {
  const { ok, output } = await compose(t, VARIABLES);
  t.ok(ok, ok ? 'taken' : output);
  const services: Readonly<Record<string, Service>> = parseYaml(output).services;
  const ours = Object.entries(services).filter(([name]) => /^(serve-|flush$|deliver$|dashboard$)/.test(name));

  t.test('has two of serve and one of each other, with settings that their commands read', async (t) => {
    t.same(
      ours.map(([name, { command }]) => `${name} ${command.join(' ')}`),
      ['dashboard dashboard', 'deliver deliver', 'flush flush', 'serve-1 serve', 'serve-2 serve'],
    );
    for (const [name, { command, environment = {} }] of ours)
      for (const setting of Object.keys(environment))
        t.ok(settingsOf(command[0]).includes(setting), `${name}: ${setting}`);
  });

  t.test('every setting reaches each process that reads it, and no other process', async (t) => {
    const values = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, `value-of-${name}`]));
    const given = await compose(t, { ...VARIABLES, ...values });
    const composed: Readonly<Record<string, Service>> = parseYaml(given.output).services;
    const ofStart: readonly string[] = OF_START;
    for (const [name, { command }] of ours) {
      const { environment = {} } = composed[name] ?? {};
      const reaching = Object.keys(environment).filter((setting) => environment[setting] === values[setting]);
      const free = settingsOf(command[0]).filter(
        (setting) => !FIXED.includes(setting) && !ofStart.includes(setting),
      );
      t.same(reaching.sort(), [...new Set(free)].sort(), name);
    }
    for (const name of ['flush', 'deliver', 'dashboard'])
      for (const secret of ['API_KEYS', 'PUBLISHABLE_KEYS', 'SHOPIFY_SECRET'])
        t.notOk(secret in (composed[name]?.environment ?? {}), `${name} gets no ${secret}`);
  });

  t.test('the user of the service manages no access; another may, from inside the container', async (t) => {
    t.notMatch(services['clickhouse']?.environment, { CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT: /./ });
    const xml = await readFile(join(DEPLOY, 'clickhouse/admin.xml'), 'utf8');
    t.same(xml.match(/(?<=<ip>).*(?=<\/ip>)/g), ['127.0.0.1', '::1']);
    t.match(
      await readFile(join(DEPLOY, 'compose.yaml'), 'utf8'),
      './clickhouse/admin.xml:/etc/clickhouse-server/users.d/',
    );
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
    const optional = [...text.matchAll(/\$\{(\w+):-\w*\}/g)].map(([, name = '']) => name);
    for (const name of required) t.ok(name in VARIABLES, name);
    for (const name of optional)
      t.ok(name in VARIABLES || name in SETTINGS || /^(HTTP_PORT|WISHMETER_IMAGE)$/.test(name), name);
    for (const name of Object.keys(VARIABLES))
      t.ok(PREDEFINED.has(name) || required.has(name) || optional.includes(name), `${name} is read`);
  });

  t.test('its parts run as they are started there, and the image finds them healthy', async (t) => {
    const dir = join(await tempDir(t), 'redis');
    await mkdir(dir);
    const port = await freePort();
    const redis = await startRedisServer(dir, port, services['redis']?.command.slice(1) ?? []);
    t.teardown(() => redis.stop());
    const client = new Redis({ port, host: '127.0.0.1' });
    const config = async (name: string) => ((await client.config('GET', name)) as string[])[1];
    t.equal(await config('appendonly'), 'yes');
    t.equal(await config('save'), '');
    t.equal(await config('maxmemory-policy'), 'noeviction');
    t.equal(await config('maxmemory'), String(2 ** 31));
    client.disconnect();

    const clickhouse = await startTestClickHouse(t, {
      databases: ['wishmeter'],
      readable: { database: 'wishmeter', tables: ANALYST_TABLES },
    });
    const hosts: Readonly<Record<string, string>> = {
      REDIS_URL: `redis://127.0.0.1:${port}`,
      CLICKHOUSE_URL: clickhouse.url,
    };
    const own = { HOST: '127.0.0.1', REDIS_TIMEOUT_MS: MOST_PATIENT_MS };
    const start = async (name: string, changed: Readonly<Record<string, string>>, listens = true) => {
      const { command: [command = ''] = [], environment = {} } = services[name] ?? {};
      for (const [setting, host] of [
        ['REDIS_URL', 'redis'],
        ['CLICKHOUSE_URL', 'clickhouse'],
      ] as const)
        if (settingsOf(command).includes(setting))
          t.ok(new URL(environment[setting] ?? '').hostname === host && host in services, `${name}: ${host}`);
      const env = { ...environment, ...hosts, ...own, ...changed };
      const part = programPart(name, command as keyof typeof UNITS, env);
      t.teardown(() => part.stop());
      const check = { ...environment, ...changed };
      if (listens) t.notOk(isHealthy(check), `${name} does not listen yet`);
      await part.start();
      if (listens) t.ok(isHealthy(check), name);
    };
    const served = String(await freePort());
    await start('serve-1', { PORT: served });
    await start('flush', { FLUSH_METRICS_PORT: String(await freePort()) });
    const ask = async (path: string, headers = {}) =>
      (await fetch(`http://127.0.0.1:${served}${path}`, { headers })).status;
    const key = { authorization: `Bearer ${VARIABLES['API_KEYS']}` };
    t.equal(
      await ask('/profile?sessionId=nobody', key),
      404,
      'serve asks both databases: 503 if one is away',
    );
    t.equal(await ask('/metrics'), 401, 'it needs the token');

    await start('deliver', {}, false);
    t.match(services['deliver'], { healthcheck: { test: ['NONE'] } });
    const shown = String(await freePort());
    await start('dashboard', { DASHBOARD_PORT: shown, CLICKHOUSE_URL: asDashboard(clickhouse.url) });
    const at = `http://127.0.0.1:${shown}`;
    const token = VARIABLES['DASHBOARD_TOKEN'];
    const login = await fetch(`${at}/login`, { method: 'POST', body: JSON.stringify({ token }) });
    const headers = { cookie: cookieOf(login.headers.get('set-cookie')) };
    const panel = await fetch(`${at}/panels/days?from=2026-03-01&to=2026-03-02`, { headers });
    t.equal(panel.status, 200, 'the dashboard reaches ClickHouse');
    t.same(await (await fetch(`${at}/receivers.json`, { headers })).json(), { receivers: [] }, 'and Redis');
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

t.test('the image has a Node and a glibc that the packed binary is for, and is not of root', async (t) => {
  const version = (await readFile(join(DEPLOY, '../.node-version'), 'utf8')).trim();
  t.match(DOCKERFILE, `ARG NODE_IMAGE=node:${version}-trixie-slim\n`);
  const [, last = ''] = DOCKERFILE.split(/^FROM .*$/m).slice(-2);
  t.match(last, '\nUSER node\n');
  // The folder that it is built from has nothing else in it for Docker.
  const ignored = await readFile(join(DEPLOY, 'Dockerfile.dockerignore'), 'utf8');
  const [copied = ''] = /wishmeter-\S*tgz/.exec(DOCKERFILE) ?? [];
  t.same(ignored.match(/^[^#\n]+$/gm), ['*', `!${copied}`]);
});

const UNITS = {
  serve: 'wishmeter-serve@.service',
  flush: 'wishmeter-flush.service',
  deliver: 'wishmeter-deliver.service',
  dashboard: 'wishmeter-dashboard.service',
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
    // systemd before 254 ignores these two, and says so.
    const output = verified.output.replace(/^.*Unknown key (name )?'Restart(Steps|MaxDelaySec)'.*\n/gm, '');
    t.same({ ...verified, output }, { ok: true, output: '' }, name);
    const security = ['security', '--offline=true', `--threshold=${MOST_EXPOSED}`, file];
    const secured = await check('systemd-analyze', security);
    t.ok(secured.ok, secured.ok ? `${name} is confined` : secured.output);
  }
});

t.test('each runs its command, with settings that this command reads', async (t) => {
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
    t.equal(/^EnvironmentFile=\/etc\/wishmeter\/serve.env$/m.test(text), command === 'serve');
  }
  const settingsIn = (name: string): readonly string[] => unit(name).match(/^\w+(?==)/gm) ?? [];
  t.ok(settingsIn('env.example').length > 3);
  for (const setting of settingsIn('env.example'))
    t.ok(Object.hasOwn(SETTINGS, setting), `env.example: ${setting}`);
  for (const secret of ['API_KEYS', 'SHOPIFY_SECRET', 'PUBLISHABLE_KEYS'])
    t.notOk(settingsIn('env.example').includes(secret), `flush and deliver get no ${secret}`);
  for (const setting of settingsIn('serve.env.example')) t.ok(settingsOf('serve').includes(setting), setting);
  const ofDashboard = settingsIn('dashboard.env.example');
  for (const setting of ['CLICKHOUSE_URL', 'DASHBOARD_TOKEN']) t.ok(ofDashboard.includes(setting), setting);
  for (const setting of ofDashboard) t.ok(settingsOf('dashboard').includes(setting), setting);
  t.match(unit(UNITS.dashboard), '\nEnvironmentFile=/etc/wishmeter/dashboard.env\n', 'it has no API keys');
});

t.test('the dashboard listens on 127.0.0.1 unless it is told otherwise', (t) => {
  const { settings, fallbacks } = COMMAND_LINES.dashboard;
  t.equal(readConfig({}, settings, fallbacks).HOST, '127.0.0.1');
  t.equal(readConfig({ HOST: '0.0.0.0' }, settings, fallbacks).HOST, '0.0.0.0');
  t.end();
});

t.test('the dashboard behind nginx', needsNginx(), async (t) => {
  const clickhouse = connectToClickHouse(t, 'http://127.0.0.1:1', 'shop');
  const { url } = await openDashboard(t, clickhouse);
  const { port: served } = await startApp(t, await startTestRedis(t));
  const conf = await readFile(join(DEPLOY, 'nginx-dashboard.conf'), 'utf8');
  const own = conf.replace('127.0.0.1:8090', new URL(url).host);
  const start = (change = (text: string) => text) => startNginx(t, served, (api) => `${api}\n${change(own)}`);
  const host = 'dashboard.shop.example:8443';
  const logIn = (port: number, headers: Record<string, string>) =>
    ask(port, 'POST', '/login', { body: JSON.stringify({ token: TOKEN }), headers: { host, ...headers } });

  const port = await start();
  t.match((await ask(port, 'GET', '/', { headers: { host } })).body, '<title>wishmeter</title>');
  const stray = await ask(port, 'GET', '/', { headers: { host: '203.0.113.7' } });
  t.match(stray.body, '/openapi.json', 'what comes under no name goes to `serve`');
  const plain = await logIn(port, { 'x-forwarded-proto': 'https' });
  t.equal(plain.status, 200);
  t.notMatch(plain.headers['set-cookie']?.[0], /Secure/, 'a browser does not say how it came');
  t.equal((await logIn(port, { origin: `https://${host}` })).status, 200);
  t.equal((await logIn(port, { origin: 'https://dashboard.shop.example' })).status, 403, 'another port');
  const secure = await logIn(await start((text) => text.replace('$scheme;', 'https;')), {});
  t.match(secure.headers['set-cookie']?.[0], /Secure/);
});

t.test('Prometheus scrapes each process, with its token', needsPrograms('promtool'), async (t) => {
  const dir = await tempDir(t);
  const conf = await readFile(join(DEPLOY, 'prometheus/prometheus.yaml'), 'utf8');
  const here = conf.replaceAll('/etc/prometheus/wishmeter-token', join(dir, 'token'));
  await writeFile(join(dir, 'prometheus.yaml'), here);
  await writeFile(join(dir, 'token'), 'x');
  await writeFile(join(dir, 'rules.yaml'), await readFile(join(DEPLOY, 'prometheus/rules.yaml')));
  const { ok, output } = await check('promtool', ['check', 'config', join(dir, 'prometheus.yaml')]);
  t.ok(ok, ok ? 'taken' : output);
  interface Job {
    readonly job_name: string;
    readonly static_configs: readonly { readonly targets: readonly string[] }[];
  }
  const jobs: readonly Job[] = parseYaml(conf).scrape_configs;
  const targets = jobs.map(({ job_name, static_configs }) => [job_name, static_configs[0]?.targets]);
  const [, units = ''] =
    /systemctl enable --now (.*)/.exec(readFileSync(join(DEPLOY, 'README.md'), 'utf8')) ?? [];
  const ports = (text: string, pattern: RegExp) =>
    Array.from(text.matchAll(pattern), ([, port]) => `127.0.0.1:${port}`);
  const composed = await readFile(join(DEPLOY, 'compose.yaml'), 'utf8');
  const published = ports(composed, /'127\.0\.0\.1:(\d+):/g);
  for (const [by, serve, flush] of [
    ['units', ports(units, /serve@(\d+)/g), ports(unit(UNITS.flush), /FLUSH_METRICS_PORT=(\d+)/g)],
    ['compose.yaml', published.slice(0, 2), published.slice(2, 3)],
  ] as const)
    t.match(Object.fromEntries(targets), { 'wishmeter-serve': serve, 'wishmeter-flush': flush }, by);
});
