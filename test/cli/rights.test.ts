// `wishmeter requests`, `export` and `erase`: what operators do with what webhooks have left, on a real Redis.

import { join } from 'node:path';
import t from 'tap';
import type { Command, Program } from '../../src/commands/program.js';
import { requests } from '../../src/commands/requests.js';
import { erase, exportVisitor } from '../../src/commands/visitor.js';
import { readConfig } from '../../src/config.js';
import { writeServiceUrl } from '../../src/embedded/service-url.js';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { allKeys } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { JSON_TYPE } from '../http/orders.js';
import { itemOf } from '../http/wishlist.js';
import { wishmeter } from './wishmeter.js';

// As in a folder where `make run` was: its ClickHouse is none of these tests'.
const dir = t.testdir({ data: { clickhouse: {} } });
writeServiceUrl(join(dir, 'data', 'clickhouse'), 'password', 1);
process.chdir(dir);

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { BUCKETS: '64' } });
  const env = { REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix, BUCKETS: '64' };
  const run = (...args: string[]) => wishmeter({ args, env });
  const list = async () =>
    (await run('requests', 'list')).stdout
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
    const { code, stdout } = await run('requests', 'export', '1');
    t.equal(code, 0);
    const { request, visitors } = JSON.parse(stdout);
    t.match(request, { id: '1' });
    t.equal(visitors.length, 2, 'the customer, and the guest of the same address');
    t.match(visitors[0], { identities: { customerIds: ['5001'] }, items: [{}], events: null });
    t.match(await run('requests', 'done', '1'), { code: 0, stdout: '1 done\n' });
    t.same(await list(), []);
    t.match(await run('requests', 'done', '1'), { code: 1, stderr: /no open request 1/ });
  });

  t.test('an erasure is listed, and is not closed by hand', async (t) => {
    await webhook('customers/redact', { customer: { id: 5002 } });
    const [{ id, kind }] = await list();
    t.equal(kind, 'customers/redact');
    t.match(await run('requests', 'done', id), { code: 1, stderr: /is an erasure/ });
  });

  t.test('export and erase', async (t) => {
    const sessionId = 's-5003';
    await app.post('/item/add', itemOf({ sessionId, email: 'cli@rights.example' }), TRUSTED);
    const { code, stdout } = await run('export', '--session', sessionId);
    t.equal(code, 0);
    t.match(JSON.parse(stdout), { identities: { sessionIds: [sessionId] }, items: [{}] });
    const byEmail = ['--email', 'CLI@rights.example'];
    t.match(await run('erase', ...byEmail), { code: 0, stdout: '{"erased":true}\n' });
    t.match(await run('export', ...byEmail), { code: 1, stderr: /No visitor is known/ });
  });
});

t.test('what makes no sense is refused before Redis is asked', async (t) => {
  const config = readConfig({ REDIS_URL: 'redis://127.0.0.1:1' });
  for (const [command, ...args] of [
    [requests, 'bury'],
    [requests, 'done'],
    [requests, 'done', 'x'],
    [requests, 'list', '1'],
    [erase],
    [erase, '--customer', 'null'],
    [exportVisitor, '--email', 'none'],
  ] as [Command<'requests' | 'erase' | 'export'>, ...string[]][])
    await t.rejects(
      async () => command({ args, config } as unknown as Program<'requests'>),
      { name: 'UsageError' },
      args.join(' '),
    );
});

t.test('where there is no data nothing is made', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const env = { REDIS_URL: redis.url };
  t.match(await wishmeter({ args: ['erase', '--session', 's'], env }), {
    code: 1,
    stderr: /no data of wishmeter/,
  });
  t.same(await allKeys(redis, 'wm'), []);
});
