// With thousands of open requests the number of Redis commands stays linear in requests and erasures. A data request that
// was taken before its visitor's erasure ended keeps nothing of that visitor.

import t, { type Test } from 'tap';
import { Compliance, type ComplianceRequest } from '../../src/identity/compliance.js';
import { ComplianceWorker } from '../../src/identity/compliance-worker.js';
import { monitorRedis } from '../harness/monitor.js';
import { startTestRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import { until } from '../harness/until.js';
import { type Server, startServer } from '../wishlist/fixtures.js';

const DATA_REQUESTS = 2_000;
const ERASURES = 50;
/** Requests that Redis gives at once, profiles that it is asked for at once, and what is added to them in a command. */
const PAGE = 100;
const MOST_WORDS = 300;
/** Commands about open requests that one erasure takes, in scripts or alone; and each request that it changes. */
const EACH = 12;

const DATA = { kind: 'customers/data_request', at: 1, shop: null, orders: 0, dataRequestId: '1' } as const;
const REDACT = { kind: 'customers/redact', at: 1, shop: null, orders: 0, dataRequestId: null } as const;
const digestOf = (n: number) => `digest-${n}`;

const redis = await startTestRedis(t);

async function open(t: Test, prefix: string) {
  const server = await startServer(t, redis, prefix);
  const compliance = new Compliance(server.store);
  const { store, eraser, shopEraser } = server;
  const onError = (error: Error) => t.fail(error.message);
  const worker = new ComplianceWorker(store, compliance, eraser, shopEraser, onError);
  let deliveries = 0;
  const take = (request: ComplianceRequest) => compliance.take(`delivery ${++deliveries}`, request);
  const dataRequests = async () =>
    (await compliance.list())
      .filter(({ request }) => request.kind === DATA.kind)
      .map(({ request }) => request);
  return { server, compliance, worker, take, dataRequests };
}

/** What Redis is asked about a key while something is done, calls of scripts aside: the commands in them are there. */
async function asked(t: Test, { store }: Server, key: string, act: () => Promise<void>) {
  const commands: string[][] = [];
  const end = await monitorRedis(redis.url, (command) => commands.push(command));
  t.teardown(end);
  await act();
  await store.client.echo('over');
  await until('all commands were seen', () => commands.some(([, word]) => word === 'over'));
  end();
  return commands.filter((command) => command.includes(key) && !/^eval/i.test(command[0] as string));
}

t.test(
  'thousands of data requests, and erasures: linear, and no visitor who was erased is kept',
  async (t) => {
    const { server, worker, take, dataRequests } = await open(t, 'linear');
    for (let n = 0; n < DATA_REQUESTS; n++)
      await take({ ...DATA, customerId: n % 2 ? null : String(n), email: n % 2 ? digestOf(n) : null });
    const visit = (customerId: string) =>
      server.visitors.enter('visitAndCount', identityOf({ customerId }), true, 'p');
    for (let n = 0; n < ERASURES; n++) {
      await visit(String(2 * n));
      await take({ ...REDACT, customerId: String(2 * n), email: digestOf(2 * n + 1) });
    }

    const { compliance } = server.store.keys;
    const commands = await asked(t, server, compliance, () => worker.run());
    const pages = Math.ceil((DATA_REQUESTS + ERASURES) / PAGE);
    // SCAN may give a few more pages than are full.
    t.ok(commands.filter(([name]) => /^hscan$/i.test(name as string)).length <= 2 * pages);
    t.ok(commands.length <= 2 * pages + ERASURES * EACH, `${commands.length} commands`);
    t.same(
      commands.filter((command) => command.length > MOST_WORDS),
      [],
    );

    const kept = await dataRequests();
    t.equal(kept.length, DATA_REQUESTS, 'they stay for the merchant');
    const isOfErased = (n: number) => n < 2 * ERASURES;
    for (const [n, { customerId, email, erased = false }] of kept.entries()) {
      const expected = isOfErased(n)
        ? [null, null, true]
        : n % 2
          ? [null, digestOf(n), false]
          : [`${n}`, null, false];
      if (JSON.stringify([customerId, email, erased]) !== JSON.stringify(expected))
        t.same([customerId, email, erased], expected, `data request ${n}`);
    }
  },
);

t.test('data requests that arrive during a run are redacted, too', async (t) => {
  const { server, worker, take, dataRequests } = await open(t, 'meanwhile');
  for (const customerId of ['1', '2']) await take({ ...REDACT, customerId, email: null });
  const { eraser } = server;
  const erase = eraser.erase.bind(eraser);
  eraser.erase = async (name, onErasing) => {
    for (const customerId of ['1', '2', '3']) await take({ ...DATA, customerId, email: null });
    return erase(name, onErasing);
  };
  await worker.run();
  // In the order in which they came: with the first erasure, and with the second.
  t.same(
    (await dataRequests()).map(({ customerId }) => customerId),
    [null, null, '3', '1', null, '3'],
    'of those who were erased before, nothing is kept; what came afterwards names a new visitor',
  );
});

t.test('all data requests are without their visitor once the shop is erased', async (t) => {
  const { worker, take, dataRequests } = await open(t, 'shop');
  await take({ ...DATA, customerId: '1', email: null });
  await take({ ...DATA, customerId: '2', email: digestOf(2) });
  await take({ ...REDACT, kind: 'shop/redact', customerId: null, email: null });
  await worker.run();
  const gone = { customerId: null, email: null, erased: true };
  t.match(await dataRequests(), [gone, gone]);
});

t.test('a request that was answered meanwhile stays closed', async (t) => {
  const { server, compliance, worker, take, dataRequests } = await open(t, 'answered');
  await take({ ...DATA, customerId: '1', email: null });
  await take({ ...REDACT, customerId: '1', email: null });
  const { eraser } = server;
  const erase = eraser.erase.bind(eraser);
  eraser.erase = async (name, onErasing) => {
    const [first] = await compliance.list();
    if (first !== undefined) await compliance.settle(first, undefined);
    return erase(name, onErasing);
  };
  await worker.run();
  t.same(await dataRequests(), []);
});

t.test('thousands of erasures that wait for ClickHouse are looked at together', async (t) => {
  const { server, compliance, worker, take } = await open(t, 'waiting');
  const { client, keys } = server.store;
  const profilesOf = (n: number) => [`1.s${n}`, `1.t${n}`];
  // One visitor alone may have had thousands of profiles.
  const many = Array.from({ length: 1_000 }, (_, i) => `2.s${i}`);
  const waiting = [...Array.from({ length: 1_000 }, (_, n) => profilesOf(n)), many];
  for (const profiles of waiting)
    await take({ ...REDACT, customerId: null, email: null, erased: true, profiles });
  const all = waiting.flat();
  await client.hset(keys.erasures, Object.fromEntries(all.map((profileId) => [profileId, '1 1'])));

  const commands = await asked(t, server, keys.erasures, () => worker.run());
  t.ok(commands.length <= 2 * (all.length / PAGE), `${commands.length} commands`);
  t.same(
    commands.filter((command) => command.length > MOST_WORDS).map(([name]) => name),
    [],
  );
  t.equal((await compliance.list()).length, waiting.length, 'all of them wait');

  await client.hdel(keys.erasures, ...profilesOf(7), profilesOf(8)[0] as string);
  await worker.run();
  const left = (await compliance.list()).map(({ request }) => request.profiles?.[0]);
  t.equal(left.length, waiting.length - 1);
  t.notOk(left.includes(profilesOf(7)[0]), 'closed, since no row of it is left');
});

t.test('what is asked for while the worker works is done after it', async (t) => {
  const { compliance, worker, take } = await open(t, 'poked');
  const run = worker.run.bind(worker);
  let runs = 0;
  worker.run = async () => {
    const isFirst = runs++ === 0;
    await run();
    if (!isFirst) return;
    await take({ ...REDACT, customerId: '2', email: null });
    worker.poke();
  };
  await take({ ...REDACT, customerId: '1', email: null });
  worker.poke();
  await until('both are erased', async () => {
    const open = await compliance.list();
    return open.length === 2 && open.every(({ request }) => request.erased);
  });
  t.equal(runs, 2);
});
