// Each process does all of its work as its user of deploy/redis/users.acl, on one Redis and on a cluster, and may do no more.

import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { dashboard } from '../../src/extras/dashboard/dashboard.js';
import { asDashboard } from '../../src/extras/embedded/clickhouse/users.js';
import { FLUSH_EXTRAS } from '../../src/extras/flush-extras.js';
import { deliver } from '../../src/extras/receivers/deliver.js';
import { openHandOver } from '../../src/extras/receivers/hand-over.js';
import { RowEraser } from '../../src/flush/row-eraser.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { type CommandHere, runHere } from '../cli/in-process.js';
import { tempDir } from '../cli/wishmeter.js';
import { putAt } from '../extras/alerts/fixtures.js';
import { cookieFor, TOKEN } from '../extras/dashboard/fixtures.js';
import { startTool } from '../extras/receivers/fixtures.js';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { connectToClickHouse, startReadable } from '../harness/clickhouse.js';
import {
  connectTo,
  connectToEach,
  startTestRedis,
  startTestReplica,
  type TestRedis,
} from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import { until } from '../harness/until.js';
import { login, startServer } from '../wishlist/fixtures.js';
import { redisUsers } from './programs.js';

const PASSWORD = 'secret';
const LOG = pino({ level: 'silent' });
const LINES = redisUsers(/^wishmeter-/, PASSWORD);
const USERS = LINES.map(([name = '']) => name);

const SETTINGS = { RECEIVERS_PRIVATE: 'allow', PRODUCT_ALERTS: 'on', SHOP_CURRENCY: 'EUR', DRAIN_MS: '0' };

function as({ urls }: Pick<TestRedis, 'urls'>, user: string): string {
  return urls.map((url) => url.replace('//', `//wishmeter-${user}:${PASSWORD}@`)).join(',');
}

async function makeUsers(nodes: readonly Redis[]): Promise<void> {
  for (const node of nodes) for (const line of LINES) await node.call('ACL', 'SETUSER', ...line);
}

async function refusals(nodes: readonly Redis[]): Promise<string[]> {
  const logs = await Promise.all(nodes.map((node) => node.call('ACL', 'LOG', '128') as Promise<unknown[][]>));
  return logs.flat().map((entry) => {
    const of = (name: string) => entry[entry.indexOf(name) + 1];
    return `${of('username')}: ${of('reason')} ${of('object')} (${of('context')})`;
  });
}

async function useAll(t: Test, app: Awaited<ReturnType<typeof startApp>>): Promise<void> {
  const { shop, post, get, del } = app;
  const shopper = { sessionId: 's-1' };
  const email = 'ann@shop.example';
  await shop.visit(shopper);
  await shop.reset(shopper);
  t.equal(await shop.count(shopper), 0);
  const once = { 'idempotency-key': 'once', ...TRUSTED };
  const visit = { identity: shopper, productHandle: 'b' };
  for (let i = 0; i < 2; i++) t.equal((await post('/product/visit', visit, once)).status, 200);
  t.equal((await post('/product/visit/batch', { visits: [visit, visit] }, TRUSTED)).status, 200);
  for (const productId of ['1', '2', '3', '4']) await shop.add({ ...shopper, email }, { productId });
  await shop.remove(shopper, { productId: '4' });
  const item = { identity: shopper, ...{ productId: '5', productTitle: 'x', productHandle: 'x' } };
  const wished = { ...item, price: '10.00', compareAt: null, inventoryAvailable: true, quantity: 1 };
  t.equal((await post('/item/add', wished, { ...once, 'idempotency-key': 'item' })).status, 200);
  await shop.event(shopper, 'moveToCart');
  const { code } = await shop.share(shopper);
  t.equal((await get(`/share/${code}/items`, TRUSTED)).status, 200);
  await shop.login({ customerId: '7', sessionId: 's-1' });
  await shop.visit({ sessionId: 's-2' });
  await shop.add({ sessionId: 's-2' }, { productId: '6' });
  await shop.login({ customerId: '7', sessionId: 's-2' });
  t.ok((await shop.items({ customerId: '7' })).length > 4, 'both wishlists');
  t.same(await putAt(app, '2', '5.00', false), [1, 0]);
  const settings = { autoRemoveAfterPurchase: true };
  t.equal((await app.send('PUT', '/settings', settings, TRUSTED)).status, 200);
  const line = { product_id: 3, variant_id: null, quantity: 1, price: '1.00' };
  const order = { id: 7, currency: 'EUR', customer: { id: 7 }, line_items: [line] };
  t.equal((await post('/webhook/purchase', order, TRUSTED)).status, 200);
  const redact = { customer: { id: 8, email: 'other@shop.example' } };
  await shop.add({ customerId: '8' });
  for (const kind of ['customers/data_request', 'customers/redact'])
    t.equal((await post(`/webhook/${kind}`, redact, TRUSTED)).status, 200, kind);
  await shop.exported({ customerId: '7' });
  t.equal((await get(withQuery('/profile', { email }), TRUSTED)).status, 200);
  await shop.visit({ sessionId: 's-3' });
  await shop.erase({ sessionId: 's-3' });
  await shop.visit({ sessionId: 's-4' });
  const eraseOnce = { ...once, 'idempotency-key': 'erase' };
  t.equal((await del('/profile', { identity: { sessionId: 's-4' } }, eraseOnce)).status, 200);
  await shop.add({ customerId: '9', email: 'bob@shop.example' });
  t.equal((await del('/profile', { identity: { email: 'bob@shop.example' } }, TRUSTED)).status, 200);
}

t.test('each process has a Redis user of its own, which reaches only keys with KEY_PREFIX', (t) => {
  const processes = ['serve', 'flush', 'deliver', 'dashboard', 'commands', 'backup', 'restore'];
  t.equal(USERS.join(' '), processes.map((name) => `wishmeter-${name}`).join(' '));
  for (const line of LINES) t.match(line.join(' '), /^\S+ (on|off) >secret ~wm:\* \+/);
  t.same(
    LINES.filter((line) => line.includes('off') || line.includes('+restore')).map(([name]) => name),
    ['wishmeter-restore'],
    'RESTORE takes any bytes for a value: who may, is off',
  );
  t.end();
});

t.test(
  'the user `replica` can follow a master, and neither it nor `exporter` can read a secret',
  async (t) => {
    const master = await startTestRedis(t, { port: await freePort() });
    const client = connectTo(t, master.url);
    for (const line of redisUsers(/^(replica|exporter)$/, PASSWORD))
      await client.call('ACL', 'SETUSER', ...line);
    const replica = await startTestReplica(t, { url: master.url }, ['replica', PASSWORD]);
    await client.set('wm:x', '1');
    await client.wait(1, 0);
    t.equal(await connectTo(t, replica.url).get('wm:x'), '1');
    const secrets = [
      ...[
        'CONFIG GET masterauth',
        'CONFIG GET requirepass',
        'CONFIG GET *',
        'ACL LIST',
        'ACL GETUSER default',
      ],
      ...['GET wm:x', 'HGETALL wm:meta', 'DUMP wm:x', 'SCAN 0', 'EVAL return{} 0', 'MONITOR', 'SLOWLOG GET'],
      ...['CLIENT LIST', 'CONFIG SET masterauth x', 'REPLICAOF NO ONE', 'FAILOVER', 'DEBUG SLEEP 0'],
    ];
    for (const user of ['replica', 'exporter'])
      for (const command of secrets) {
        const said = await client.call('ACL', 'DRYRUN', user, ...command.split(' '));
        t.match(String(said), /no permissions/, `${user}: ${command}`);
      }
    t.match(String(await client.call('ACL', 'DRYRUN', 'exporter', 'PSYNC', '?', '-1')), /no permissions/);
  },
);

eachRedis(t, async (t, redis) => {
  const nodes = connectToEach(t, redis.urls);
  await makeUsers(nodes);
  const clickhouse = await startReadable(t, 'wishmeter', { databases: ['wishmeter', 'shop'] });
  const settings = { ...SETTINGS, CLICKHOUSE_URL: clickhouse.url, HOST: '127.0.0.1' };
  const envOf = (user: string) => ({ ...settings, REDIS_URL: as(redis, user) });
  const app = await startApp(t, { urls: as(redis, 'serve').split(',') }, { prefix: 'wm', env: settings });
  const run = async (name: CommandHere, ...args: string[]) => {
    const { code, stdout, stderr } = await runHere(name, args, envOf('commands'));
    t.equal(code, 0, `${name} ${args.join(' ')}: ${stderr}`);
    return stdout;
  };

  const tool = await startTool(t);
  const types = 'add,remove,purchase,share,priceDrop';
  const { id } = JSON.parse(await run('receivers', 'add', tool.url, types));
  await useAll(t, app);
  const ofFlush = { FLUSH_INTERVAL_MS: '200', ERASURE_INTERVAL_S: '60', FLUSH_METRICS_PORT: '0' };
  const flushing = await flush(readConfig({ ...envOf('flush'), ...ofFlush }), LOG, { extras: FLUSH_EXTRAS });
  t.teardown(() => flushing.close());
  const delivering = await deliver(readConfig(envOf('deliver')), LOG);
  t.teardown(() => delivering.close());

  await t.test('the Redis users of flush and deliver may do all of their work', async (t) => {
    const types = () => tool.delivered.map(({ body }) => body.type);
    await until('adds and an order are delivered', () =>
      ['add', 'purchase'].every((type) => types().includes(type)),
    );
    await app.shop.add({ customerId: '10' }, { productId: '20', price: '80.00', currencyCode: 'EUR' });
    t.same(await putAt(app, '20', '60.00'), [1, 0]);
    await until('a price drop, too', () => types().includes('priceDrop'));
    tool.answer = (res) => void res.writeHead(500).end();
    const sent = tool.delivered.length;
    await app.shop.add({ customerId: '11' });
    await until('one fails', () => tool.delivered.length > sent);
    tool.answer = (res) => void res.end('{}');
    await until('everything is flushed', async () =>
      (await app.stats())
        .match(/wishmeter_stream_pending_events\{.*\} (\d+)/g)
        ?.every((one) => one.endsWith(' 0')),
    );
    // As `flush` does after some minutes.
    const urls = as(redis, 'flush').split(',');
    const connection = await connectRedis({ urls, name: 'test', timeoutMs: 20_000 }, () => {});
    t.teardown(() => connection.disconnect());
    const keys = createKeys('wm');
    const eraser = new RowEraser({
      ...{ redis: connection, keys, clickhouse: connectToClickHouse(t, clickhouse.url, 'wishmeter') },
      ...{ eraseInExtras: openHandOver(connection, keys, 1e9, LOG).erase, inFlightMs: 0, lateMs: 0 },
    });
    await until('erasures reach ClickHouse', async () => {
      await eraser.run();
      return (await app.figure('pending_erasures')) === 0;
    });
  });

  await t.test('the Redis user of commands may do all of their work', async (t) => {
    await run('receivers', 'pause', id);
    await run('receivers', 'resume', id);
    await run('receivers', 'test', id);
    await run('receivers', 'replay', id, '--since', '1h');
    t.match(await run('receivers'), id);
    await run('dead', 'list');
    await run('dead', 'retry', '--all');
    await run('dead', 'drop', '--all');
    const [request = ''] = (await run('requests', 'list')).split('\n');
    t.match(await run('requests', 'export', JSON.parse(request).id), /visitors/);
    await run('requests', 'done', JSON.parse(request).id);
    t.match(await run('export', '--customer', '7'), /"customerIds"/);
    t.equal(await run('erase', '--customer', '7'), '{"erased":true}\n');
  });

  await t.test('the Redis user of the dashboard may do all of its work', async (t) => {
    const own = { CLICKHOUSE_URL: asDashboard(clickhouse.url), DASHBOARD_PORT: '0', DASHBOARD_TOKEN: TOKEN };
    const { port, close } = await dashboard(readConfig({ ...envOf('dashboard'), ...own }), LOG);
    t.teardown(close);
    const at = `http://127.0.0.1:${port}`;
    t.equal((await fetch(`${at}/readyz`)).status, 200);
    const headers = { cookie: await cookieFor(at), origin: at };
    const shown = await (await fetch(`${at}/receivers.json`, { headers })).json();
    t.match(shown, { receivers: [{ id }] });
    const sent = tool.delivered.length;
    const tested = await fetch(`${at}/receivers/${id}/test`, { method: 'POST', headers });
    const answer = await tested.text();
    t.equal(tested.status, 200, answer);
    t.ok(tool.delivered.length > sent, `a test is sent: ${answer}`);
  });

  await t.test('the users of backup and restore may copy a deployment with pending merges', async (t) => {
    const [guest, customer] = [identityOf({ sessionId: 'half' }), identityOf({ customerId: 'half' })];
    const server = await startServer(t, redis, 'wm');
    for (const who of [guest, customer]) await server.counter.enter('visit', who, true, 'x');
    server.crashAfter(5, true);
    await t.rejects(login(server, { sessionId: 'half', customerId: 'half' }));
    // As if these had been merged during the backup, after it had read their data.
    const { store, locator } = server;
    for (const [sessionId, merged] of [
      ['whole', 'merged'],
      ['part', 'count w'],
    ] as const) {
      await server.counter.enter('visit', identityOf({ sessionId }), false, 'x');
      const members = store.keys.members(locator.profileOf('c:half'));
      const note = `1.a known s:${sessionId}\n${merged}`;
      await store.client.hset(members, locator.profileOf(`s:${sessionId}`), note);
    }
    const folder = join(await tempDir(t), 'backup');
    t.match(await runHere('backup', [folder], envOf('backup')), { code: 0, stderr: '' });
    if (redis.urls.length === 1) return; // what is restored is the same
    const other = await startTestRedis(t);
    const target = connectToEach(t, other.urls);
    await makeUsers(target);
    const into = { CLICKHOUSE_URL: clickhouse.url, CLICKHOUSE_DATABASE: 'shop' };
    const env = { ...into, REDIS_URL: as(other, 'restore') };
    const restore = () => runHere('restore', [folder], env);
    t.match(await restore(), { code: 1, stderr: /WRONGPASS/ }, 'it is off');
    await target[0]?.call('ACL', 'LOG', 'RESET');
    await target[0]?.call('ACL', 'SETUSER', 'wishmeter-restore', 'on');
    t.match(await restore(), { code: 0, stderr: '' });
    t.same(await refusals(target), []);
    const pending = await target[0]?.zrange(createKeys('wm').pending(0), '0', '-1');
    t.match(pending, [/^merge /, /^merge /, /^merge /], 'a serve will finish the merges');
  });

  t.same(await refusals(nodes), [], 'nothing was refused');

  await t.test('no Redis user may do more than its work', async (t) => {
    const refused = async (user: string, command: string) => {
      const said = await nodes[0]?.call('ACL', 'DRYRUN', user, ...command.split(' '));
      t.match(String(said), /no permissions/, `${user}: ${command}`);
    };
    const dangerous = [
      'KEYS *',
      'FLUSHALL',
      'CONFIG GET requirepass',
      'ACL LIST',
      'DEBUG SLEEP 0',
      'SHUTDOWN',
    ];
    const others = [
      'REPLICAOF NO ONE',
      'MONITOR',
      'FUNCTION FLUSH',
      'SCRIPT FLUSH',
      'CLIENT LIST',
      'SUBSCRIBE x',
    ];
    const foreign = ['GET other:key', 'HGETALL other:key', 'DEL other:key'];
    for (const user of USERS)
      for (const command of [...dangerous, ...others, ...foreign]) await refused(user, command);
    for (const user of ['dashboard', 'backup', 'restore'])
      for (const command of ['DEL wm:x', 'XADD wm:x * f v']) await refused(`wishmeter-${user}`, command);
  });
});
