// deploy/ except its units (units.test.ts): docker-compose accepts compose.yaml, and containers are confined.
// Here Redis, nginx and our processes run without containers, with the arguments, environment and health
// check that they would have.

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { COMMAND_LINES, OF_START } from '../../src/commands/command-line.js';
import { readConfig, SETTINGS } from '../../src/config.js';
import { asDashboard } from '../../src/extras/embedded/clickhouse/users.js';
import { needsNginx, startNginx } from '../cli/nginx.js';
import { tempDir } from '../cli/wishmeter.js';
import { cookieFor, openDashboard, TOKEN } from '../extras/dashboard/fixtures.js';
import { MOST_PATIENT_MS, programPart } from '../faults/service.js';
import { startApp } from '../harness/app.js';
import { connectToClickHouse, startReadable } from '../harness/clickhouse.js';
import { ask } from '../harness/client.js';
import { needsPrograms } from '../harness/needs.js';
import { startTestRedis } from '../harness/redis.js';
import { check, DEPLOY, parseYaml, settingsOf, startRedisServer, UNITS, unit } from './programs.js';

const ENV_EXAMPLE = readFileSync(join(DEPLOY, 'compose.env.example'), 'utf8');
const PREDEFINED = new Set(['COMPOSE_PROJECT_NAME', 'SHOP_URL']);

async function compose(t: Test, variables: Readonly<Record<string, string>>) {
  const file = join(await tempDir(t), 'env');
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(file, lines.join(''));
  const { PATH, HOME } = process.env;
  const args = ['--env-file', file, '-f', join(DEPLOY, 'compose.yaml'), 'config'];
  return await check('docker-compose', args, { env: { PATH, HOME } });
}

/** Settings that compose.yaml fixes: the locations of its parts. */
const FIXED =
  'REDIS_URL CLICKHOUSE_URL HOST PORT DASHBOARD_PORT DASHBOARD_API_URL FLUSH_METRICS_PORT DATA_DIR'.split(
    ' ',
  );

const GIVEN: Readonly<Record<string, string>> = {
  PUBLISHABLE_KEYS: 'pk_0123456789abcdef',
  ALLOWED_ORIGINS: 'https://shop.example',
  SHOP_TIMEZONE: 'Europe/Berlin',
  RECEIVERS_PRIVATE: 'allow',
  SHOP_CURRENCY: 'EUR',
  SHOP_DOMAIN: 'shop.myshopify.com',
  IMAGE_HOSTS: 'cdn.shop.example',
  DASHBOARD_VISITORS: 'on',
  DASHBOARD_LOGINS: 'anna:own-0123456789abcdef',
  DASHBOARD_API_KEY: 'sk_0123456789API_KEYS',
};

const VARIABLES: Record<string, string> = {};
for (const [, name = '', value] of ENV_EXAMPLE.matchAll(/^(\w+)=(.*)$/gm))
  VARIABLES[name] = value || (GIVEN[name] ?? `sk_0123456789${name}`);

const DOCKERFILE = readFileSync(join(DEPLOY, 'Dockerfile'), 'utf8');

function isHealthy(env: NodeJS.ProcessEnv): boolean {
  const [, json = ''] = /HEALTHCHECK (?:.*\\\n)*\s+CMD (\[.*\])$/m.exec(DOCKERFILE) ?? [];
  const [program, ...args] = JSON.parse(json) as string[];
  return program === 'node' && spawnSync(process.execPath, args, { env }).status === 0;
}

t.test('compose.yaml', needsPrograms('docker-compose'), async (t) => {
  const { ok, output } = await compose(t, VARIABLES);
  t.ok(ok, ok ? 'taken' : output);
  const { services } = parseYaml(output);
  const ours = Object.keys(services).filter((name) => /^(serve-|flush$|deliver$|dashboard$)/.test(name));

  t.test(
    'compose.yaml has two of serve and one of each other process, with settings that their commands read',
    async (t) => {
      t.same(ours, ['dashboard', 'deliver', 'flush', 'serve-1', 'serve-2']);
      for (const name of ours) {
        const { command, environment } = services[name];
        t.same(command, [name.split('-')[0]]);
        for (const setting of Object.keys(environment))
          t.ok(settingsOf(command[0]).includes(setting), `${name}: ${setting}`);
      }
    },
  );

  t.test(
    'every setting of compose.yaml reaches each process that reads it, and no other process',
    async (t) => {
      const values = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, `value-of-${name}`]));
      const given = await compose(t, { ...VARIABLES, ...values });
      const composed = parseYaml(given.output).services;
      const notFree: readonly string[] = [...FIXED, ...OF_START];
      for (const name of ours) {
        const { command, environment } = composed[name];
        const reaching = Object.keys(environment).filter(
          (setting) => environment[setting] === values[setting],
        );
        const free = settingsOf(command[0]).filter((setting) => !notFree.includes(setting));
        t.same(reaching.sort(), [...new Set(free)].sort(), name);
      }
      for (const name of ['flush', 'deliver', 'dashboard'])
        for (const secret of ['API_KEYS', 'PUBLISHABLE_KEYS', 'SHOPIFY_SECRET'])
          t.notOk(secret in composed[name].environment, `${name} gets no ${secret}`);
    },
  );

  t.test(
    "ClickHouse's service user manages no access, and an administrator may only from inside the container",
    async (t) => {
      t.notMatch(services.clickhouse.environment, { CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT: /./ });
      const xml = await readFile(join(DEPLOY, 'clickhouse/admin.xml'), 'utf8');
      t.same(xml.match(/(?<=<ip>).*(?=<\/ip>)/g), ['127.0.0.1', '::1']);
      const compose = await readFile(join(DEPLOY, 'compose.yaml'), 'utf8');
      t.match(compose, './clickhouse/admin.xml:/etc/clickhouse-server/users.d/');
    },
  );

  t.test('every container is limited, confined, restarted and health-checked', async (t) => {
    for (const name of Object.keys(services)) {
      const service = { read_only: false, ...services[name] };
      t.equal(service.read_only, name !== 'clickhouse', name);
      t.match(service, { restart: 'unless-stopped', security_opt: ['no-new-privileges:true'] }, name);
      t.match(service, { cap_drop: ['ALL'], logging: { options: { 'max-size': /./ } } }, name);
      t.match(service, { deploy: { resources: { limits: { memory: /./ } } } }, name);
      t.ok(service.image === 'wishmeter' || service.healthcheck, `${name} has a health check`);
      for (const volume of service.volumes ?? []) {
        const [file = ''] = typeof volume === 'string' ? volume.split(':') : [volume.source];
        t.ok(!file.startsWith('/') || existsSync(file), `${name}: ${file}`);
      }
    }
  });

  t.test(
    'compose.yaml asks for each variable without a default, and the example names every variable',
    async (t) => {
      const text = await readFile(join(DEPLOY, 'compose.yaml'), 'utf8');
      const required = new Set([...text.matchAll(/\$\{(\w+):\?/g)].map(([, name = '']) => name));
      t.ok(required.size > 3);
      const bare = await compose(t, {});
      t.notOk(bare.ok);
      t.match(bare.output, /set \w+ in \.env/);
      const optional = [...text.matchAll(/\$\{(\w+):-\w*\}/g)].map(([, name = '']) => name);
      for (const name of required) t.ok(name in VARIABLES, name);
      for (const name of optional)
        t.ok(name in VARIABLES || name in SETTINGS || /^(HTTP_PORT|WISHMETER_IMAGE)$/.test(name), name);
      for (const name of Object.keys(VARIABLES))
        t.ok(PREDEFINED.has(name) || required.has(name) || optional.includes(name), `${name} is read`);
    },
  );

  t.test(
    'the processes of compose.yaml run with its settings, and their health checks succeed',
    async (t) => {
      const dir = join(await tempDir(t), 'redis');
      await mkdir(dir);
      const port = await freePort();
      const { command, environment: passwords, healthcheck } = services.redis;
      const [fill = '', args = ''] = command.at(-1).split(/ && exec redis-server /);
      const acl = join(dir, 'users.acl');
      const here = (text: string) =>
        text
          .replace('/etc/redis/users.acl', join(DEPLOY, 'redis/users.acl'))
          .replaceAll('/tmp/users.acl', acl);
      execFileSync('sh', ['-c', here(fill).replaceAll('$$', '$')], { env: passwords });
      const options = here(args)
        .split(/\s+/)
        .map((word) => (word === '""' ? '' : word));
      const startRedis = () => startRedisServer(dir, port, options, 'ping any');
      let redis = await startRedis();
      t.teardown(() => redis.stop());
      const ping = healthcheck.test[1].replace('redis-cli', `redis-cli -p ${port}`);
      t.equal(spawnSync('sh', ['-c', ping]).status, 0, 'its health check finds it');
      const stranger = new Redis({ port, host: '127.0.0.1', enableReadyCheck: false });
      stranger.on('error', () => {}); // the command's is enough
      await t.rejects(stranger.get('wm:x'), /NOAUTH/, 'nothing without a password');
      stranger.disconnect();
      const connect = (username: string, password = '') =>
        new Redis({ port, host: '127.0.0.1', username, password, enableReadyCheck: false });
      const serve = connect('wishmeter-serve', VARIABLES['SERVE_REDIS_PASSWORD']);
      const script = "redis.call('SET', KEYS[1], 1) return redis.call('SET', KEYS[2], 2)";
      await serve.eval(script, 2, 'wm:{1}:a', 'wm:{1}:b');
      serve.disconnect();
      await redis.stop();
      redis = await startRedis();
      const client = connect('admin', VARIABLES['ADMIN_REDIS_PASSWORD']);
      // A script that writes twice outlives a restart.
      t.same(await client.mget('wm:{1}:a', 'wm:{1}:b'), ['1', '2']);
      await client.del('wm:{1}:a', 'wm:{1}:b');
      const expected = {
        appendonly: 'yes',
        save: '',
        'maxmemory-policy': 'noeviction',
        maxmemory: `${2 ** 31}`,
      };
      for (const [name, value] of Object.entries(expected))
        t.same(await client.config('GET', name), [name, value]);
      client.disconnect();

      const clickhouse = await startReadable(t, 'wishmeter');
      const at = (value: string, host: string) => {
        const url = new URL(value);
        t.ok(url.hostname in services, value);
        url.host = host;
        return url.href;
      };
      const own = { HOST: '127.0.0.1', REDIS_TIMEOUT_MS: MOST_PATIENT_MS };
      const start = async (name: string, changed: Readonly<Record<string, string>>) => {
        const { command: args, environment } = services[name];
        const [command] = args;
        const REDIS_URL = at(environment.REDIS_URL, `127.0.0.1:${port}`);
        t.equal(new URL(REDIS_URL).username, `wishmeter-${command}`);
        const { CLICKHOUSE_URL } = environment;
        if (CLICKHOUSE_URL !== undefined) at(CLICKHOUSE_URL, '127.0.0.1');
        const moved = { REDIS_URL, CLICKHOUSE_URL: CLICKHOUSE_URL && clickhouse.url };
        const env = { ...environment, ...moved, ...own, ...changed };
        const part = programPart(name, command, env);
        t.teardown(() => part.stop());
        const check = { ...environment, ...changed };
        t.notOk(isHealthy(check), `${name} does not listen yet`);
        await part.start();
        t.ok(isHealthy(check), name);
      };
      const served = String(await freePort());
      await start('serve-1', { PORT: served });
      await start('flush', { FLUSH_METRICS_PORT: String(await freePort()) });
      const ask = async (path: string, headers = {}) =>
        (await fetch(`http://127.0.0.1:${served}${path}`, { headers })).status;
      const key = { authorization: `Bearer ${VARIABLES['API_KEYS']}` };
      // `serve` asks both databases: 503 if one is away.
      t.equal(await ask('/profile?sessionId=nobody', key), 404);
      t.equal(await ask('/metrics'), 401, 'it needs the token');

      t.same(services.deliver.healthcheck.test, ['NONE']);
      const shown = String(await freePort());
      await start('dashboard', {
        DASHBOARD_PORT: shown,
        CLICKHOUSE_URL: asDashboard(clickhouse.url),
        DASHBOARD_API_URL: at(services.dashboard.environment.DASHBOARD_API_URL, `127.0.0.1:${served}`),
      });
      const page = `http://127.0.0.1:${shown}`;
      const headers = { cookie: await cookieFor(page, VARIABLES['DASHBOARD_TOKEN']) };
      const panel = await fetch(`${page}/panels/days?from=2026-03-01&to=2026-03-02`, { headers });
      t.equal(panel.status, 200, 'the dashboard reaches ClickHouse');
      t.same(
        await (await fetch(`${page}/receivers.json`, { headers })).json(),
        { receivers: [] },
        'and Redis',
      );
      const found = await fetch(`${page}/visitors/find`, {
        method: 'POST',
        headers: { cookie: await cookieFor(page, 'own-0123456789abcdef') },
        body: '{"by":"any","text":"nobody"}',
      });
      t.equal(found.status, 404, 'and `serve`, with its key');
    },
  );

  t.test('the nginx of compose.yaml passes requests to both serve processes', needsNginx(), async (t) => {
    const { port: served } = await startApp(t, await startTestRedis(t));
    const [, substitution = ''] = /sed '(.*?)'/.exec(services.nginx.command.at(-1)) ?? [];
    const nginx = await startNginx(t, 0, (conf) => {
      const text = execFileSync('sed', [substitution], { input: conf, encoding: 'utf8' });
      for (const name of ['serve-1', 'serve-2']) t.match(text, `server ${name}:8080 `);
      return text.replace(/serve-[12]:8080/g, `127.0.0.1:${served}`);
    });
    t.equal((await ask(nginx, 'GET', '/healthz')).status, 200);
  });
});

t.test('the image has a Node and a glibc that fit the packed binary, and does not run as root', async (t) => {
  const version = (await readFile(join(DEPLOY, '../.node-version'), 'utf8')).trim();
  t.match(DOCKERFILE, `ARG NODE_IMAGE=node:${version}-trixie-slim\n`);
  const [, last = ''] = DOCKERFILE.split(/^FROM .*$/m).slice(-2);
  t.match(last, '\nUSER node\n');
  const ignored = await readFile(join(DEPLOY, 'Dockerfile.dockerignore'), 'utf8');
  const [copied = ''] = /wishmeter-\S*tgz/.exec(DOCKERFILE) ?? [];
  t.same(ignored.match(/^[^#\n]+$/gm), ['*', `!${copied}`]);
});

t.test('the dashboard listens on 127.0.0.1 unless HOST says otherwise', (t) => {
  const { settings, fallbacks } = COMMAND_LINES.dashboard;
  t.equal(readConfig({}, settings, fallbacks).HOST, '127.0.0.1');
  t.equal(readConfig({ HOST: '0.0.0.0' }, settings, fallbacks).HOST, '0.0.0.0');
  t.end();
});

t.test('the dashboard works behind nginx with deploy/nginx-dashboard.conf', needsNginx(), async (t) => {
  const clickhouse = connectToClickHouse(t, 'http://127.0.0.1:1', 'shop');
  const { url } = await openDashboard(t, clickhouse);
  const { port: served } = await startApp(t, await startTestRedis(t));
  const conf = await readFile(join(DEPLOY, 'nginx-dashboard.conf'), 'utf8');
  const own = conf.replace('127.0.0.1:8090', new URL(url).host);
  const start = (change = (text: string) => text) => startNginx(t, served, (api) => `${api}\n${change(own)}`);
  const host = 'dashboard.shop.example:8443';
  const logIn = (port: number, headers: Record<string, string>) =>
    ask(port, 'POST', '/login', { body: { token: TOKEN }, headers: { host, ...headers } });

  const port = await start();
  t.match((await ask(port, 'GET', '/', { headers: { host } })).text, '<title>wishmeter</title>');
  const stray = await ask(port, 'GET', '/', { headers: { host: '203.0.113.7' } });
  t.match(stray.text, '/openapi.json', 'what comes under no name goes to `serve`');
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
  const targets: Record<string, readonly string[]> = {};
  for (const { job_name, static_configs } of parseYaml(conf).scrape_configs)
    targets[job_name] = static_configs[0].targets;
  const readme = readFileSync(join(DEPLOY, 'README.md'), 'utf8');
  const [, units = ''] = /systemctl enable --now (.*)/.exec(readme) ?? [];
  const ports = (text: string, pattern: RegExp) =>
    Array.from(text.matchAll(pattern), ([, port]) => `127.0.0.1:${port}`);
  const composed = await readFile(join(DEPLOY, 'compose.yaml'), 'utf8');
  const published = ports(composed, /'127\.0\.0\.1:(\d+):/g);
  for (const [by, serve, flush] of [
    ['units', ports(units, /serve@(\d+)/g), ports(unit(UNITS.flush), /FLUSH_METRICS_PORT=(\d+)/g)],
    ['compose.yaml', published.slice(0, 2), published.slice(2, 3)],
  ] as const)
    t.match(targets, { 'wishmeter-serve': serve, 'wishmeter-flush': flush }, by);
});
