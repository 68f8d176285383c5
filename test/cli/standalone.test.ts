// migrate, serve, flush and sql as processes, as in production. What they write and report has no keys and no visitors.

import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import t, { type Test } from 'tap';
import { loadMigrations } from '../../src/clickhouse/migrate.js';
import { COMMAND_LINES } from '../../src/commands/command-line.js';
import { SETTINGS } from '../../src/config.js';
import { startClickHouse } from '../../src/extras/embedded/clickhouse/start.js';
import { createKeys } from '../../src/redis/keys.js';
import { cookieFor } from '../extras/dashboard/fixtures.js';
import { programPart } from '../faults/service.js';
import { connectToClickHouse, putMigrated } from '../harness/clickhouse.js';
import { ask } from '../harness/client.js';
import { needsPrograms } from '../harness/needs.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { startStores } from '../harness/stores.js';
import { runHere } from './in-process.js';
import { processesOf } from './processes.js';
import { shopAt, sql, started } from './started.js';
import {
  failureIn,
  logLines,
  MAIN,
  onTerminal,
  type Running,
  runWishmeter,
  STOPPED_ONCE_READY,
  tempDir,
  until,
  wishmeter,
} from './wishmeter.js';

const SCRIPT = needsPrograms('script');
const KEY = 'sk_a-key-for-this-test';
const EVENTS = 30;
const stores = await startStores(t);
const { clickhouse } = stores;
const env = { ...stores.env, API_KEYS: KEY };
const runs: Running[] = [];
const serve = programPart('serve', 'serve', env, runs);
const flushers = [1, 2, 3].map((i) => programPart(`flush ${i}`, 'flush', env));
t.teardown(() => Promise.all([serve, ...flushers].map((part) => part.stop())));
const shopOf = async () => {
  const line = await runs[0]?.logged('serving');
  return shopAt(`http://127.0.0.1:${line?.['port']}`, KEY);
};
const stored = () => sql(clickhouse.url, 'SELECT count(), uniqExact(event_id) FROM events_stored');
t.test('three flushers on an empty ClickHouse create one schema, and store each event once', async (t) => {
  await Promise.all(flushers.map((flusher) => flusher.start()));
  await serve.start();
  t.notMatch(runs[0]?.stdout(), /set API_KEYS/);
  const shop = await shopOf();
  await shop.visit({ sessionId: 's-1' });
  t.equal(await shop.count({ sessionId: 's-1' }), 1);
  for (let i = 0; i < EVENTS; i++) await shop.event({ sessionId: `s-${i}` }, 'add', { productId: '1' });
  await until('all events are there', async () => Number((await stored()).split('\t')[0]) >= EVENTS);
  for (const flusher of flushers) await flusher.stop();
  t.equal(await stored(), `${EVENTS}\t${EVENTS}`);
  t.equal(
    await sql(
      clickhouse.url,
      'SELECT version, uniqExact(checksum) FROM schema_migrations GROUP BY version ORDER BY version',
    ),
    loadMigrations()
      .map(({ version }) => `${version}\t1`)
      .join('\n'),
  );
});
t.test(
  'migrate without settings deletes nothing and changes no view, and asks before it applies other settings',
  async (t) => {
    const database = 'decided';
    const own = { ...env, CLICKHOUSE_DATABASE: database };
    const migrate = (settings: Record<string, string>, ...args: string[]) =>
      runHere('migrate', args, { ...own, ...settings });
    const decided = { VISIT_RETENTION_DAYS: '1000', SHOP_TIMEZONE: 'Europe/Berlin' };
    t.match(await migrate(decided), { code: 0, stdout: /^001_\w+\n/, stderr: '' });
    await sql(
      clickhouse.url,
      `INSERT INTO ${database}.visits_stored (occurred_at, profile_id) SELECT now64(3) - INTERVAL 500 DAY, 'old'`,
    );
    const held = async () => [
      await sql(clickhouse.url, `SELECT count() FROM ${database}.visits_stored`),
      await sql(
        clickhouse.url,
        `SELECT countIf(as_select LIKE '%Europe/Berlin%') > 0, countIf(as_select LIKE '%toDate(occurred_at, \\'UTC\\')%') > 0        FROM system.tables WHERE database = '${database}'`,
      ),
      await sql(
        clickhouse.url,
        `SELECT name, argMax(value, kept_at) FROM ${database}.kept_settings GROUP BY name ORDER BY name`,
      ),
    ];
    const before = await held();
    t.same(before.slice(0, 2), ['1', '1\t0']);
    t.match(await migrate({}), { code: 0, stdout: 'Nothing to do.\n' });
    t.match(await migrate(decided), { code: 0, stdout: 'Nothing to do.\n' });
    const otherwise = { VISIT_RETENTION_DAYS: '40', SHOP_TIMEZONE: 'UTC' };
    const asked = await migrate(otherwise);
    t.match(asked, { code: 1, stdout: '' });
    t.match(asked.stderr, /VISIT_RETENTION_DAYS is 1000 .* 40: `flush` would delete 1 visits/);
    t.match(asked.stderr, /SHOP_TIMEZONE is Europe\/Berlin .* UTC: all views .* --yes/);
    t.match(await migrate({ CLICKHOUSE_CLUSTER: 'many' }), { code: 1, stderr: /one server/ });
    t.same(await held(), before);
    t.match(await migrate(otherwise, '--yes'), {
      code: 0,
      stdout: 'VISIT_RETENTION_DAYS: 1000 -> 40\nSHOP_TIMEZONE: Europe/Berlin -> UTC\n',
    });
    const [visits, views] = await held();
    t.same([visits, views], ['1', '0\t1'], 'only flush deletes visits, once their day is totalled');
    t.match(await migrate({}), { code: 0, stdout: 'Nothing to do.\n' });
  },
);
t.test('a signal at the moment when a command becomes ready stops it in order', async (t) => {
  for (const command of ['serve', 'flush']) {
    const stopped = await wishmeter({ args: [command], env: { ...env, ...STOPPED_ONCE_READY } });
    t.match(stopped, { code: 0, signal: null, stdout: /"stopping"/, stderr: '' }, command);
  }
});
t.test('logs are readable lines on a terminal, and JSON elsewhere', SCRIPT, async (t) => {
  const { env } = stores;
  const { screen, ctrlC, ended } = onTerminal(t, 'serve', { TERM: 'xterm', ...env });
  await until('it serves', () => screen().includes('serving'));
  ctrlC();
  const shown = await ended();
  t.match(shown, '\u001b[32mINFO', 'with colour');
  const plain = stripVTControlCharacters(shown);
  t.equal(plain.match(/stopping/g)?.length, 1, 'a signal is logged once');
  t.match(plain, /^\[\d\d:\d\d:\d\d\] WARN \(serve\): no caller may save items .* set API_KEYS/m);
  t.match(
    plain,
    /^\[\d\d:\d\d:\d\d\] INFO \(serve\): serving \{"host":"127\.0\.0\.1","port":\d+,"uws":"[^"]+"\}$/m,
  );

  const piped = runWishmeter(t, { args: ['serve'], env });
  await piped.logged('serving');
  const warnings = logLines(piped.stdout()).filter(({ level }) => level === 40);
  t.match(warnings[0], { name: 'serve', msg: /set API_KEYS/ });
});
t.test('flush and migrate leave a newer database alone, and events wait', async (t) => {
  const admin = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  await admin.insert({
    table: 'schema_migrations',
    values: [{ version: 99, name: '099_of_tomorrow', checksum: 'x' }],
    format: 'JSONEachRow',
  });
  await admin.command({ query: 'DROP VIEW most_wished' });
  await (await shopOf()).event({ sessionId: 's' }); // serve does not read it
  for (const command of ['flush', 'migrate']) {
    const { code, stderr } = await runWishmeter(t, { args: [command], env }).ended;
    t.equal(code, 1, command);
    t.match(
      failureIn(stderr),
      /^ClickHouse database wishmeter has schema 99, and this program knows \d+: start a newer version\.$/,
    );
  }
  const views = "SELECT count() FROM system.tables WHERE database = 'wishmeter' AND name = 'most_wished'";
  t.equal(await sql(clickhouse.url, views), '0', 'its views are not put back');
  t.equal(await stored(), `${EVENTS}\t${EVENTS}`);
  await admin.command({
    query: 'ALTER TABLE schema_migrations DELETE WHERE version = 99',
    clickhouse_settings: { mutations_sync: '1' },
  });
  await flushers[0]?.start();
  await until('the event came', async () => (await stored()) === `${EVENTS + 1}\t${EVENTS + 1}`);
});

t.test('sql', async (t) => {
  const dir = await tempDir(t);
  const readable = { database: 'default', tables: ['seen'] };
  const clickhouse = await startClickHouse({ dir: join(dir, 'clickhouse'), readable });
  t.teardown(() => clickhouse.stop());
  const env = { CLICKHOUSE_URL: clickhouse.url, CLICKHOUSE_DATABASE: 'default' };
  const sql = (args: string[], stdin?: string) => runHere('sql', args, env, stdin);

  const shown = (t: Test, query: string) => onTerminal(t, `sql "${query}"`, env).ended();

  t.test('sql writes tab-separated values under a header to a pipe, or the requested format', async (t) => {
    const answer = await sql(["SELECT number AS n, 'é☃' AS s FROM numbers(2)"]);
    t.match(answer, { code: 0, stdout: 'n\ts\n0\té☃\n1\té☃\n', stderr: '' });
    t.equal((await sql(['--format', 'JSONEachRow', 'SELECT 1 AS n'])).stdout, '{"n":1}\n');
    t.equal((await sql(['-f', 'JSONEachRow', 'SELECT 1 AS n FORMAT CSV'])).stdout, '1\n');
    t.equal((await sql([], 'SELECT 7 AS n\n')).stdout, 'n\n7\n', 'the query comes from stdin');
  });

  t.test('sql prints an error of ClickHouse as one line, with exit code 1', async (t) => {
    const { code, stdout, stderr } = await sql(['SELECT nothing_like_it\nFROM nowhere']);
    t.equal(code, 1);
    t.equal(stdout, '');
    t.match(stderr, /^wishmeter: Code: 60\. DB::Exception: [^\n]*nowhere[^\n]*\n$/);
  });

  t.test('sql explains a question without days, or with days in the wrong order', async (t) => {
    const migrated = { ...stores.env, CLICKHOUSE_DATABASE: 'decided' };
    const error = async (query: string) => (await runHere('sql', [query], migrated)).stderr;
    const example = /most_wished asks for days: write most_wished\(from = '2026-03-01', to = '2026-03-31'\)/;
    t.match(await error('SELECT * FROM most_wished'), example);
    t.match(await error("SELECT * FROM most_wished(from = '2026-03-01')"), example);
    t.match(await error('SELECT * FROM momentum'), /momentum\(until = '2026-03-31'\)/);
    t.notMatch(await error("SELECT x FROM most_wished(from = '2026-03-01', to = '2026-03-31')"), /asks for/);
    t.match(
      await error("SELECT * FROM most_wished(from = '2026-03-31', to = '2026-03-01')"),
      /from is after to: give the first day as from/,
    );
  });

  t.test('sql looks names up in CLICKHOUSE_DATABASE', async (t) => {
    t.equal((await sql(['CREATE DATABASE shop'])).code, 0);
    const shop = { ...env, CLICKHOUSE_DATABASE: 'shop' };
    const { stdout } = await runHere('sql', ['SELECT currentDatabase() AS db'], shop);
    t.equal(stdout, 'db\nshop\n');
  });

  t.test('sql streams a large answer whole, and ends quietly if its reader leaves', async (t) => {
    const { code, stdout } = await sql(['SELECT number FROM numbers(1000000)']);
    t.equal(code, 0);
    t.equal(stdout.split('\n').length, 1_000_002); // header, and nothing after the last newline
    const pipe = '"$0" "$1" sql "SELECT number FROM numbers(5000000)" | head -n 3; exit $?';
    const options = { env: { PATH: process.env.PATH, ...env }, encoding: 'utf8', timeout: 60_000 } as const;
    const head = spawnSync('/bin/sh', ['-c', pipe, process.execPath, MAIN], options);
    t.match(head, { status: 0, stdout: 'number\n0\n1\n', stderr: '' });
  });

  t.test('sql prints a table on a terminal', SCRIPT, async (t) => {
    t.match(await shown(t, "SELECT 1 AS n, 'x' AS s"), /┌─n─┬─s─┐\n.*│ 1 │ x │\n *└───┴───┘/);
  });

  t.test('sql shows escape sequences as text on a terminal, and as bytes in a pipe', SCRIPT, async (t) => {
    const query = "SELECT unhex('1B5D303B7077C29B6DE280AE7F07') AS s FORMAT TSVRaw";
    const screen = await shown(t, query);
    t.match(screen, '\\u001b]0;pw\\u009bm\\u202e\\u007f\\u0007');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that none is there is the point
    t.notMatch(screen, /[\u001b\u009b\u202e\u007f\u0007]/);
    t.equal((await sql([query])).stdout, '\u001b]0;pw\u009bm\u202e\u007f\u0007\n');
    const { stderr: error } = await sql(["SELECT '\u001b[31m' + nothing"]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that none is there is the point
    t.notMatch(error, /\u001b/, 'nor do errors, which quote the query');
  });

  t.test('sql asks the embedded ClickHouse as its analyst, and with --write as the service', async (t) => {
    const env = {
      DATA_DIR: dir,
      CLICKHOUSE_PORT: new URL(clickhouse.url).port,
      CLICKHOUSE_DATABASE: 'default',
    };
    const own = (...args: string[]) => runHere('sql', args, env);
    const create = 'CREATE TABLE seen (a UInt8) ENGINE = Memory';
    t.match(await own(create), { code: 1, stderr: /ACCESS_DENIED/ });
    t.match(await own('--write', create), { code: 0 });
    t.match(await own('--write', 'INSERT INTO seen VALUES (7)'), { code: 0 });
    t.match(await own('INSERT INTO seen VALUES (8)'), { code: 1, stderr: /ACCESS_DENIED/ });
    t.equal((await own('SELECT a FROM seen')).stdout, 'a\n7\n');
    for (const CLICKHOUSE_PORT of ['0', '1']) {
      const read = await runHere('sql', ['SELECT a FROM seen'], { ...env, CLICKHOUSE_PORT });
      t.equal(read.stdout, 'a\n7\n', 'the port of the one that runs comes first');
    }
    const late = await own("SELECT throwIf(number = 2999999, 'too late') FROM numbers(3000000)");
    t.match(late, { code: 1, stdout: /\n0\n0\n/, stderr: /^wishmeter: Code: 395\. .*too late[^\n]*\n$/ });
    const migrated = await runHere('migrate', [], { ...env, CLICKHOUSE_DATABASE: 'shop' });
    t.match(migrated, { code: 0, stdout: /001_events/ });
    const elsewhere = { ...env, DATA_DIR: await tempDir(t) };
    t.match(await runHere('sql', ['--write', 'SELECT 1'], elsewhere), {
      code: 1,
      stderr: /There is no password in .*DATA_DIR/,
    });
  });
});

const SECRETS = {
  oldKey: 'sk_old_SECRETKEY_0123456789',
  newKey: 'sk_new_SECRETKEY_0123456789',
  publishable: 'pk_SECRETKEY_0123456789',
  shopify: 'shpss_SECRETKEY_0123456789',
  metrics: 'metrics_SECRETKEY_0123456789',
  login: 'login_SECRETKEY_0123456789',
};
const WRONG = 'sk_WRONGKEY_0123456789abc';
const VISITOR = {
  sessionId: 'session-PERSONAL-1',
  customerId: 'customer-PERSONAL-1',
  email: 'ada.PERSONAL@shop.example',
  firstName: 'Ada-PERSONAL',
  lastName: 'Lovelace-PERSONAL',
};
const MARKS = /SECRETKEY|WRONGKEY|PERSONAL/;
const keys = createKeys('wm');
/** Every answer that is no success, as one text; asserts that each request had the status it should. */
async function exercise(t: Test, port: number, key: string): Promise<string> {
  const good = { authorization: `Bearer ${key}` };
  const event = { identity: VISITOR, type: 'add', payload: { productId: 'PERSONAL' } };
  const strange = { ...VISITOR, email: 'PERSONAL', device: 'PERSONAL'.repeat(9) };
  const wrong = [
    { authorization: `Bearer ${WRONG}` },
    { authorization: `Bearer ${key}${WRONG}` },
    { authorization: `Basic ${WRONG}` },
    { 'x-api-key': WRONG },
    { 'x-api-key': SECRETS.shopify },
    { 'x-api-key': SECRETS.metrics },
  ];
  const calls: [path: string, status: number, headers?: object, body?: unknown][] = [
    ['/event', 200, good, event],
    ['/event', 200, { 'x-api-key': key }, event],
    ...wrong.map((headers) => ['/event', 401, headers, event] as [string, number, object, unknown]),
    [`/product/visit?key=${WRONG}`, 401, {}, { identity: VISITOR, productHandle: 'x' }],
    [`/item/list?signature=${WRONG}`, 401, {}, { identity: VISITOR }],
    ['/webhook/purchase', 401, { 'x-shopify-hmac-sha256': WRONG }, { email: VISITOR.email }],
    ['/metrics', 401, { authorization: `Bearer ${WRONG}` }],
    ['/event', 400, good, `{"identity":{"sessionId":"${VISITOR.sessionId}"`],
    ['/event', 400, good, { ...event, type: VISITOR.email }],
    ['/event', 400, good, { ...event, identity: strange }],
    [`/PERSONAL/${WRONG}`, 404, good],
  ];
  const seen: string[] = [];
  for (const [path, status, headers, body] of calls) {
    const all = { 'content-type': 'application/json', ...headers };
    const answer = await ask(port, body === undefined ? 'GET' : 'POST', path, { body, headers: all });
    t.equal(answer.status, status, `${path} ${JSON.stringify(headers)}`);
    if (status !== 200) seen.push(answer.text, JSON.stringify(answer.headers));
  }
  return seen.join('\n');
}
const metricsOf = async (port: number) =>
  (await ask(port, 'GET', '/metrics', { headers: { authorization: `Bearer ${SECRETS.metrics}` } })).text;
t.test(
  "start shows no key and no visitor in output, titles, metrics or errors, and gives no command another's settings",
  async (t) => {
    const [redis, dir] = await Promise.all([startTestRedis(t), tempDir(t)]);
    await putMigrated(join(dir, 'clickhouse'), 'wishmeter');
    const client = connectTo(t, redis.url);
    client.on('error', () => {}); // its server is killed, too
    const env = {
      REDIS_URL: redis.url,
      PUBLISHABLE_KEYS: SECRETS.publishable,
      API_KEYS: `${SECRETS.oldKey},${SECRETS.newKey}`,
      SHOPIFY_SECRET: `${SECRETS.shopify},${SECRETS.shopify}-BEFORE`,
      SHOP_DOMAIN: 'shop.myshopify.com',
      METRICS_TOKEN: SECRETS.metrics,
      DASHBOARD_VISITORS: 'on',
      DASHBOARD_LOGINS: `anna:${SECRETS.login}`,
      FLUSH_METRICS_PORT: '0',
      LOG_LEVEL: 'trace',
      HOST: '127.0.0.1',
      PORT: '0',
    };
    const start = await started(t, dir, env);
    const port = Number(new URL(start.url).port);
    const logged = () => logLines(start.running.stdout());
    for (const key of [SECRETS.oldKey, SECRETS.newKey])
      t.notMatch(await exercise(t, port, key), MARKS, 'bodies and headers of errors');

    const cookie = await cookieFor(start.dashboardUrl, SECRETS.login);
    const found = await fetch(`${start.dashboardUrl}/visitors/find`, {
      ...{ method: 'POST', headers: { cookie } },
      body: JSON.stringify({ by: 'any', text: VISITOR.email }),
    });
    t.match(await found.json(), { by: 'email', profile: { lastName: VISITOR.lastName } });
    t.match(await start.running.logged('visitor viewed'), { login: 'anna', profileId: /./ });

    const headers = { 'content-type': 'application/json', 'x-api-key': SECRETS.newKey };
    const post = (path: string, body: object) => ask(port, 'POST', path, { body, headers });
    // As after a bug: a key has the wrong type, and Redis's error names the command.
    const guest = { sessionId: 'PERSONAL-2' };
    const { profileId } = (await post('/product/visit', { identity: guest, productHandle: 'x' })).json;
    await client.set(keys.profile(profileId), 'no hash');
    const broken = await post('/profile/guest', { ...VISITOR, customerId: null, ...guest });
    t.equal(broken.status, 500);
    t.notMatch(broken.text, MARKS);
    await start.running.logged('request failed');

    const line = `{"event_id":"${VISITOR.email}","type":"add","session_id":"PERSONAL"}\n`;
    await client.xadd(keys.events(0), '*', 'n', '1', 'd', line);
    await until('a dead letter', async () => (await client.xlen(keys.eventsDead(0))) === 1);
    t.match(
      JSON.stringify(await client.xrange(keys.eventsDead(0), '-', '+')),
      'PERSONAL',
      'the letter has it',
    );
    await until('it is logged', () => logged().some(({ msg }) => /dead letter/.test(String(msg))));

    const processes = await processesOf(dir);
    const titles = processes.map(({ title }) => title);
    for (const title of [/^wishmeter start/, /^wishmeter serve/, /^wishmeter flush/, /^wishmeter clickhouse/])
      t.ok(
        titles.some((one) => title.test(one)),
        `${title}`,
      );
    for (const { pid, title } of processes)
      t.notMatch(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''), MARKS, title);
    const isSetting = (name: string) => Object.hasOwn(SETTINGS, name);
    const commands = new Set<string>();
    for (const { pid, title } of processes) {
      // The command itself, and the shell that watches it.
      const [, command] = /(?:^wishmeter |main\.js )(serve|flush|deliver|dashboard)\b/.exec(title) ?? [];
      if (command === undefined) continue;
      const environ = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
      if (environ !== '') commands.add(command);
      const given = environ.split('\0').map((pair) => pair.slice(0, pair.indexOf('=')));
      const { settings } = COMMAND_LINES[command as keyof typeof COMMAND_LINES];
      const read: readonly string[] = [...settings, 'DATA_DIR'];
      t.same(
        given.filter((name) => isSetting(name) && !read.includes(name)),
        [],
        `${title} has no setting of another command`,
      );
      if (command === 'dashboard') t.notMatch(environ, /sk_(old|new)_/, 'it has a key of its own');
    }
    t.equal(commands.size, 4);
    t.match(await metricsOf(port), 'wishmeter_http_refused_total');
    t.notMatch(await metricsOf(port), MARKS, 'metrics of serve');
    const ofFlush = await start.running.logged('metrics');
    t.notMatch(await metricsOf(Number(ofFlush['port'])), MARKS, 'metrics of flush');

    const pid = redis.pids[0] as number;
    process.kill(pid, 'SIGKILL');
    await post('/event', { identity: VISITOR, type: 'add' });
    const { stdout, stderr } = await start.stop();
    t.notMatch(stdout, MARKS, 'stdout');
    t.notMatch(stderr, MARKS, 'stderr');
    t.equal(stderr, '');
    t.ok(logLines(stdout).every(({ level, time }) => typeof level === 'number' && typeof time === 'number'));
  },
);
