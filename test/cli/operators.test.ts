// `dead`, `requests`, `export` and `erase` on a real Redis. Commands run in this process, unless a pipe is
// tested.

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { writeServiceUrl } from '../../src/extras/embedded/clickhouse/service-url.js';
import { openDeployment } from '../../src/redis/deployment.js';
import { createKeys } from '../../src/redis/keys.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { allKeys } from '../harness/dump.js';
import { connectTo, startTestCluster, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { type CommandHere, runHere } from './in-process.js';
import { MAIN, spawnWishmeter } from './wishmeter.js';

// As in a folder where `make run` was used: these commands must not use its ClickHouse.
const dir = t.testdir({ data: { clickhouse: {} } });
writeServiceUrl(join(dir, 'data', 'clickhouse'), 'password', 1);
process.chdir(dir);

const EXPORT = '{ "$0" "$1" export --session "$2"; echo $? >&2; }';
const JSON_TYPE = { 'content-type': 'application/json' };
t.test('dead letters of every stream are listed, put back or dropped', async (t) => {
  const keys = createKeys('wm');
  const server = await startTestRedis(t);
  const redis = connectTo(t, server.url);
  const env = { REDIS_URL: server.url };
  const ask = (...args: string[]) => runHere('dead', args, env);
  const refuse = (stream: number, line: string) => {
    const fields = { code: '117', reason: 'r', time: '1700000000000', line };
    return redis.xadd(keys.eventsDead(stream), '*', ...Object.entries(fields).flat());
  };

  t.match(await runHere('erase', ['--session', 's'], env), { code: 1, stderr: /no data of wishmeter/ });
  t.match(await ask(), { code: 0, stdout: '', stderr: '' }, 'where nothing ever ran');
  t.same(await allKeys(server, 'wm'), [], 'nothing is made');
  await openDeployment(redis, keys, { buckets: 16 });
  // A stream left over from a node of a cluster.
  await redis.hset(keys.meta, 'marker:1', '1');
  const a = await refuse(0, '{"a":1}');
  const b = await refuse(1, '{"b":1}');
  const c = await refuse(1, '{"c":1}');
  const letters = [
    { id: `0/${a}`, line: '{"a":1}' },
    { id: `1/${b}`, line: '{"b":1}' },
    { id: `1/${c}`, line: '{"c":1}' },
  ];
  const common = { time: '2023-11-14T22:13:20.000Z', code: 117, reason: 'r' };
  const expected = letters.map((letter) => ({ ...letter, ...common }));
  t.same(linesOf((await ask('list')).stdout), expected);

  t.match(await ask('drop', `1/${b}`), { code: 0, stdout: '1 dropped\n' });
  t.match(await ask('drop', `1/${b}`), { code: 0, stdout: '0 dropped\n' });
  for (const args of [['retry'], ['drop'], ['drop', '--all', '0/1-1'], ['drop', '0/1-1', 'x'], ['bury']])
    t.match(await ask(...args), { code: 2, stdout: '' }, args.join(' '));
  t.match(await ask('retry', '--all'), { code: 0, stdout: '2 put back\n' });
  t.equal((await ask('list')).stdout, '');
  for (const stream of [0, 1]) t.equal(await redis.xlen(keys.events(stream)), 1);

  for (let i = 0; i < 120; i++) await refuse(0, JSON.stringify({ payload: 'x'.repeat(16_384) }));
  const { child, ended } = spawnWishmeter({ args: ['dead', 'list'], env });
  child.stdout?.once('data', () => child.stdout?.destroy());
  const closed = await ended;
  t.match(closed, { code: 0, signal: null, stderr: '' }, 'a reader may close the pipe early');
  t.equal(linesOf((await ask('list')).stdout).length, 120, 'more than are read at once');
  t.match(await ask('drop', '--all'), { code: 0, stdout: '120 dropped\n' });
});

t.test('requests of webhooks, and visitors, on a cluster', async (t) => {
  const redis = await startTestCluster(t);
  const { shop, post, prefix } = await startApp(t, redis);
  const env = { REDIS_URL: redis.urls.join(','), KEY_PREFIX: prefix };
  const ask = (name: CommandHere, ...args: string[]) => runHere(name, args, env);
  const list = async () => linesOf((await ask('requests', 'list')).stdout);
  const webhook = (kind: string, body: object) =>
    post(`/webhook/${kind}`, body, { ...TRUSTED, ...JSON_TYPE });

  t.test('a data request is listed, exported with all data of its visitors, and closed', async (t) => {
    const email = 'asks@rights.example';
    await shop.add({ customerId: '5001', email });
    await shop.add({ sessionId: 's-5001', email });
    const asked = { orders_requested: [1], data_request: { id: 77 } };
    await webhook('customers/data_request', { customer: { id: 5001, email }, ...asked });
    t.match(await list(), [
      {
        id: '1',
        kind: 'customers/data_request',
        state: 'to be answered',
        customerId: '5001',
        hasEmail: true,
        orders: 1,
        dataRequestId: '77',
      },
    ]);
    const { code, stdout } = await ask('requests', 'export', '1');
    t.equal(code, 0);
    const { request, visitors } = JSON.parse(stdout);
    t.match(request, { id: '1' });
    t.equal(visitors.length, 2, 'the customer, and the guest of the same address');
    t.match(visitors[0], { identities: { customerIds: ['5001'] }, items: [Object], events: null });
    t.match(await ask('requests', 'done', '1'), { code: 0, stdout: '1 done\n' });
    t.same(await list(), []);
    t.match(await ask('requests', 'done', '1'), { code: 1, stderr: /no open request 1/ });
  });

  t.test('a request for an erasure is listed, and cannot be closed by hand', async (t) => {
    await webhook('customers/redact', { customer: { id: 5002 } });
    const [{ id, kind }] = await list();
    t.equal(kind, 'customers/redact');
    t.match(await ask('requests', 'done', id), { code: 1, stderr: /is an erasure/ });
  });

  t.test('shop/redact erases nothing until the operator confirms it, and `done` closes it', async (t) => {
    const last = async () => (await list()).at(-1);
    await webhook('shop/redact', {});
    const waiting = await last();
    const { id } = waiting;
    t.match(waiting, { kind: 'shop/redact', state: `waits for \`wishmeter requests confirm ${id}\`` });
    t.match(await ask('requests', 'export', id), { code: 1, stderr: /is an erasure/ });
    t.match(await ask('requests', 'done', id), { code: 0, stdout: '1 done\n' });
    t.match(await ask('requests', 'confirm', id), { code: 1, stderr: /no open request/ });
    await shop.add({ customerId: '5010' });
    await webhook('shop/redact', {});
    const next = (await last()).id;
    const [other] = await list();
    t.match(await ask('requests', 'confirm', other.id), { code: 1, stderr: /needs no confirmation/ });
    t.match(await ask('requests', 'confirm', next), { code: 0, stdout: '1 confirmed\n' });
    t.match(await ask('requests', 'confirm', next), { code: 1, stderr: /needs no confirmation/ });
    t.match(await ask('requests', 'done', next), { code: 1, stderr: /is an erasure/ });
    await until('it is erased', async () => /erased from Redis/.test((await last()).state));
    t.same(await shop.items({ customerId: '5010' }), []);
  });

  t.test(
    '`export` prints a visitor by session, and `erase` erases the visitor by e-mail address',
    async (t) => {
      const sessionId = 's-5003';
      await shop.add({ sessionId, email: 'cli@rights.example' });
      const { code, stdout } = await ask('export', '--session', sessionId);
      t.equal(code, 0);
      t.match(JSON.parse(stdout), { identities: { sessionIds: [sessionId] }, items: [Object] });
      const byEmail = ['--email', 'CLI@rights.example'];
      t.match(await ask('erase', ...byEmail), { code: 0, stdout: '{"erased":true}\n' });
      t.match(await ask('export', ...byEmail), { code: 1, stderr: /Nothing is kept/ });
    },
  );

  t.test('a pipe gets all of an export, however late it is read, and may be closed early', async (t) => {
    const sessionId = 's-5004';
    const visits = Array.from({ length: 100 }, (_, n) => ({
      identity: { sessionId },
      productHandle: `${n}-`.padEnd(250, 'x'),
    }));
    for (let page = 0; page < 5; page++) {
      const ofPage = visits.map((visit) => ({ ...visit, productHandle: `${page}${visit.productHandle}` }));
      t.match(await post('/product/visit/batch', { visits: ofPage }, TRUSTED), { status: 200 });
    }
    const piped = (reader: string) =>
      promisify(execFile)('/bin/sh', ['-c', `${EXPORT} | ${reader}`, process.execPath, MAIN, sessionId], {
        env: { PATH: process.env.PATH, DATA_DIR: join(dir, 'none'), ...env },
        maxBuffer: 1e7,
      });
    const { stdout, stderr } = await piped('{ sleep 1; cat; }');
    t.equal(Object.keys(JSON.parse(stdout).visits).length, 500);
    t.equal(stderr, '0\n');
    t.match(await piped('head -c 1'), { stdout: '{', stderr: '0\n' });
  });
});

t.test("a wrong argument of an operator's command is refused before Redis is asked", async (t) => {
  const env = { REDIS_URL: 'redis://127.0.0.1:1' };
  for (const [name, ...args] of [
    ['requests', 'bury'],
    ['requests', 'done'],
    ['requests', 'done', 'x'],
    ['requests', 'confirm'],
    ['requests', 'list', '1'],
    ['erase'],
    ['erase', '--customer', 'null'],
    ['export', '--email', 'none'],
  ] as [CommandHere, ...string[]][])
    t.match(await runHere(name, args, env), { code: 2, stdout: '' }, args.join(' '));
});

function linesOf(stdout: string) {
  const lines = stdout.split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line));
}
