// What operators do with what is left to them, on a real Redis: `wishmeter dead` with events that ClickHouse refused,
// `requests`, `export` and `erase` with what webhooks have left. Commands run in this process, but for the pipe of one.

import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { Redis } from 'ioredis';
import t from 'tap';
import { dead } from '../../src/commands/dead.js';
import { UsageError } from '../../src/commands/help.js';
import type { Command, Program } from '../../src/commands/program.js';
import { requests } from '../../src/commands/requests.js';
import { erase, exportVisitor } from '../../src/commands/visitor.js';
import { readConfig } from '../../src/config.js';
import { writeServiceUrl } from '../../src/embedded/service-url.js';
import { StartupError } from '../../src/errors.js';
import { openDeployment } from '../../src/redis/deployment.js';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { allKeys } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { JSON_TYPE } from '../http/orders.js';
import { itemOf } from '../http/wishlist.js';
import { spawnWishmeter } from './wishmeter.js';

// As in a folder where `make run` was: its ClickHouse is none of these tests'.
const dir = t.testdir({ data: { clickhouse: {} } });
writeServiceUrl(join(dir, 'data', 'clickhouse'), 'password', 1);
process.chdir(dir);

const COMMANDS = { dead, requests, export: exportVisitor, erase };

/** @returns what the command line would: its exit code, its output and its sentence */
async function run(env: Readonly<Record<string, string>>, name: keyof typeof COMMANDS, ...args: string[]) {
  const chunks: string[] = [];
  const stdout = new PassThrough({ encoding: 'utf8' }).on('data', (text: string) => chunks.push(text));
  const said = (code: number, stderr = '') => ({ code, stdout: chunks.join(''), stderr });
  try {
    const command = COMMANDS[name] as Command<typeof name>;
    const program = {
      args,
      env,
      config: readConfig({ DATA_DIR: join(dir, 'none'), ...env }),
      stdout,
    } as unknown as Program<typeof name>;
    const code = await command(program);
    await new Promise((done) => setImmediate(done));
    return said(code);
  } catch (error) {
    if (error instanceof UsageError) return said(2, error.message);
    if (error instanceof StartupError) return said(1, error.message);
    throw error;
  }
}

t.test('dead letters', async (t) => {
  const keys = createKeys('wm');
  const server = await startTestRedis();
  t.teardown(() => server.stop());
  const redis = new Redis(`${server.dir}/redis.sock`);
  t.teardown(() => redis.disconnect());
  const env = { REDIS_URL: server.url };

  await t.test(
    'those of all shards ever used are listed, put back or dropped, by their ids or all',
    async (t) => {
      const ask = (...args: string[]) => run(env, 'dead', ...args);
      const refuse = (shard: number, line: string) =>
        redis.xadd(
          keys.eventsDead(shard),
          '*',
          'code',
          '117',
          'reason',
          'r',
          'time',
          '1700000000000',
          'line',
          line,
        );

      t.match(await ask(), { code: 0, stdout: '', stderr: '' }, 'where nothing ever ran');
      // Shards of a time when EVENT_SHARDS was 2; now it is 1.
      await openDeployment(redis, keys, { buckets: 16, eventShards: 2 });
      t.match(await ask(), { code: 0, stdout: '', stderr: '' });
      const a = await refuse(0, '{"a":1}');
      const b = await refuse(1, '{"b":1}');
      const c = await refuse(1, '{"c":1}');
      const { stdout } = await ask('list');
      t.same(
        stdout
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line)),
        [
          [`0/${a}`, '{"a":1}'],
          [`1/${b}`, '{"b":1}'],
          [`1/${c}`, '{"c":1}'],
        ].map(([id, line]) => ({ id, time: '2023-11-14T22:13:20.000Z', code: 117, reason: 'r', line })),
      );

      t.match(await ask('drop', `1/${b}`), { code: 0, stdout: '1 dropped\n' });
      t.match(await ask('drop', `1/${b}`), { code: 0, stdout: '0 dropped\n' });
      t.match(await ask('retry', '--all'), { code: 0, stdout: '2 put back\n' });
      t.equal((await ask('list')).stdout, '');
      t.equal(await redis.xlen(keys.events(0)), 1);
      t.equal(await redis.xlen(keys.events(1)), 1);
    },
  );

  await t.test('a reader that closes the pipe early is no error', async (t) => {
    const line = JSON.stringify({ payload: 'x'.repeat(16_384) });
    for (let i = 0; i < 64; i++) await redis.xadd(keys.eventsDead(0), '*', 'time', '0', 'line', line);
    const { child, ended } = spawnWishmeter({ args: ['dead', 'list'], env });
    child.stdout?.once('data', () => child.stdout?.destroy());
    t.match(await ended, { code: 0, signal: null, stderr: '' });
  });

  await t.test('what is no id, and neither ids nor --all, is refused before anything is done', async (t) => {
    for (const args of [['retry'], ['drop'], ['drop', '--all', '0/1-1'], ['drop', '0/1-1', 'x'], ['bury']])
      t.match(await run(env, 'dead', ...args), { code: 2, stdout: '' }, args.join(' '));
    t.equal(await redis.xlen(keys.eventsDead(0)), 64);
  });
});

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { BUCKETS: '64' } });
  const env = { REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix, BUCKETS: '64' };
  const ask = (name: keyof typeof COMMANDS, ...args: string[]) => run(env, name, ...args);
  const list = async () =>
    (await ask('requests', 'list')).stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  const webhook = (kind: string, body: object) =>
    app.post(`/webhook/${kind}`, body, { ...TRUSTED, ...JSON_TYPE });

  t.test('a data request is listed, shown with all that is kept, and closed', async (t) => {
    const identity = { customerId: '5001', email: 'asks@rights.example' };
    await app.post('/item/add', itemOf(identity), TRUSTED);
    await app.post('/item/add', itemOf({ sessionId: 's-5001', email: identity.email }), TRUSTED);
    const customer = { id: 5001, email: identity.email };
    await webhook('customers/data_request', { customer, orders_requested: [1], data_request: { id: 77 } });
    const [open, ...others] = await list();
    t.same(others, []);
    t.match(open, {
      id: '1',
      kind: 'customers/data_request',
      state: 'to be answered',
      customerId: '5001',
      hasEmail: true,
      orders: 1,
      dataRequestId: '77',
    });
    const { code, stdout } = await ask('requests', 'export', '1');
    t.equal(code, 0);
    const { request, visitors } = JSON.parse(stdout);
    t.match(request, { id: '1' });
    t.equal(visitors.length, 2, 'the customer, and the guest of the same address');
    t.match(visitors[0], { identities: { customerIds: ['5001'] }, items: [{}], events: null });
    t.match(await ask('requests', 'done', '1'), { code: 0, stdout: '1 done\n' });
    t.same(await list(), []);
    t.match(await ask('requests', 'done', '1'), { code: 1, stderr: /no open request 1/ });
  });

  t.test('an erasure is listed, and is not closed by hand', async (t) => {
    await webhook('customers/redact', { customer: { id: 5002 } });
    const [{ id, kind }] = await list();
    t.equal(kind, 'customers/redact');
    t.match(await ask('requests', 'done', id), { code: 1, stderr: /is an erasure/ });
  });

  t.test('export and erase', async (t) => {
    const sessionId = 's-5003';
    await app.post('/item/add', itemOf({ sessionId, email: 'cli@rights.example' }), TRUSTED);
    const { code, stdout } = await ask('export', '--session', sessionId);
    t.equal(code, 0);
    t.match(JSON.parse(stdout), { identities: { sessionIds: [sessionId] }, items: [{}] });
    const byEmail = ['--email', 'CLI@rights.example'];
    t.match(await ask('erase', ...byEmail), { code: 0, stdout: '{"erased":true}\n' });
    t.match(await ask('export', ...byEmail), { code: 1, stderr: /No visitor is known/ });
  });
});

t.test('what makes no sense is refused before Redis is asked', async (t) => {
  const env = { REDIS_URL: 'redis://127.0.0.1:1' };
  for (const [name, ...args] of [
    ['requests', 'bury'],
    ['requests', 'done'],
    ['requests', 'done', 'x'],
    ['requests', 'list', '1'],
    ['erase'],
    ['erase', '--customer', 'null'],
    ['export', '--email', 'none'],
  ] as [keyof typeof COMMANDS, ...string[]][])
    t.match(await run(env, name, ...args), { code: 2, stdout: '' }, args.join(' '));
});

t.test('where there is no data nothing is made', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  t.match(await run({ REDIS_URL: redis.url }, 'erase', '--session', 's'), {
    code: 1,
    stderr: /no data of wishmeter/,
  });
  t.same(await allKeys(redis, 'wm'), []);
});
