// The service in processes, under load: parts are killed and started again, Redis freezes under a flood, ClickHouse
// refuses rows. What was acknowledged is there, once, and nothing else is. FAULTS=full: 50 kills of the flusher, 20 of
// ClickHouse, of the workers and of everything, 10 of Redis. Random numbers come from SEED, which the titles show.

import t from 'tap';
import { createRandom } from '../../bench/demo/random.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { until, wishmeter } from '../cli/wishmeter.js';
import type { Load } from './load.js';
import { FULL, kill, MOST_PATIENT_MS, openService, type Part, SEED, signal } from './service.js';

const service = await openService({
  workers: 2,
  fsync: 'always',
  env: { REDIS_TIMEOUT_MS: MOST_PATIENT_MS },
});
const { redis, clickhouse, flush, workers } = service;
const analyst = createClickHouse(service.clickhouseUrl, 'wishmeter');
t.teardown(async () => {
  await analyst.close();
  await service.stop();
});

const loads: Load[] = [];
/** @param name begins every id of the load, so that what is lost tells its test */
function startLoad(name: string): Load {
  const load = service.load({ seed: SEED + loads.length, name });
  loads.push(load);
  return load;
}

/** @param key makes it one operation, however often it is sent */
async function post(path: string, body: object, key?: string) {
  const answer = await fetch(service.url + path, {
    method: 'POST',
    headers: {
      'x-api-key': service.key,
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
    body: JSON.stringify(body),
  });
  const json = (await answer.json()) as { code?: string; count?: number };
  return { status: answer.status, retryAfter: answer.headers.get('retry-after'), ...json };
}

const everything = [redis, clickhouse, flush, ...workers];
const KILLS: readonly { what: string; name: string; groups: readonly (readonly Part[])[]; times: number }[] =
  [
    { what: 'the flusher', name: 'kf', groups: [[flush]], times: FULL ? 50 : 1 },
    { what: 'ClickHouse', name: 'kc', groups: [[clickhouse]], times: FULL ? 20 : 1 },
    { what: 'a worker', name: 'kw', groups: workers.map((one) => [one]), times: FULL ? 20 : 1 },
    { what: 'Redis', name: 'kr', groups: [[redis]], times: FULL ? 10 : 1 },
    { what: 'everything at once', name: 'ke', groups: [everything], times: FULL ? 20 : 1 },
  ];

for (const [round, { what, name, groups, times }] of KILLS.entries()) {
  const title = `the service goes on after ${times} kill -9 of ${what}, SEED=${SEED}`;
  t.test(title, { timeout: 600_000 }, async () => {
    const random = createRandom(SEED + round);
    const load = startLoad(name);
    for (let i = 0; i < times; i++) {
      await load.untilServed(50 + Math.floor(random.next() * 100));
      const killed = groups[i % groups.length] as readonly Part[];
      await Promise.all(killed.map(kill));
      const isDatabase = (part: Part) => part === redis || part === clickhouse;
      await Promise.all(killed.filter(isDatabase).map((part) => part.start()));
      await Promise.all(killed.filter((part) => !isDatabase(part)).map((part) => part.start()));
      await load.untilServed(50);
    }
    await load.stop();
  });
}

t.test('a flood while Redis is frozen gets 503, is not applied late, and is served afterwards', async (t) => {
  const visit = (i: number, key?: string) =>
    post('/product/visit?count=true', { identity: { sessionId: `flood-${i}` }, productHandle: 'x' }, key);
  const flood = Array.from({ length: 150 }, (_, i) => i);
  const load = startLoad('fr');
  await load.untilServed(50);
  signal(redis, 'SIGSTOP');
  for (const answer of await Promise.all(flood.map((i) => visit(i))))
    if (answer.status !== 503 || !/^[1-9]\d*$/.test(answer.retryAfter ?? '') || answer.count !== undefined)
      t.fail(JSON.stringify(answer));
  signal(redis, 'SIGCONT');
  await load.untilServed(50);
  await load.stop();
  const visitAgain = async (i: number) => {
    const { count } = await until('a visit of the flood is counted', async () => {
      const answer = await visit(i, `flood-${i}`);
      return answer.status === 200 && answer;
    });
    if (count !== 1) t.fail(`visit ${i} got 503 and was applied late: ${count} are counted`);
  };
  await Promise.all(flood.map(visitAgain));
});

t.test(
  'a row that ClickHouse refuses becomes a dead letter alone, and can be sent again or dropped',
  async (t) => {
    const constraint = "ADD CONSTRAINT no_poison CHECK NOT startsWith(product_id, 'poison')";
    const dead = async (...args: string[]) => {
      const env = { REDIS_URL: service.redisUrl };
      const { code, stdout, stderr } = await wishmeter({ args: ['dead', ...args], env });
      if (code !== 0) throw new Error(stderr);
      return stdout;
    };
    const list = async () =>
      (await dead('list'))
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as { id: string; code: number; reason: string; line: string });
    const isShown = async (productId: string) => {
      const query = `SELECT 1 FROM events WHERE product_id = '${productId}'`;
      return (await (await analyst.query({ query, format: 'JSONEachRow' })).json()).length === 1;
    };

    await analyst.command({ query: `ALTER TABLE events_stored ${constraint}` });
    const load = startLoad('dl');
    await load.untilServed(50);
    for (const productId of ['poison-a', 'poison-b']) {
      const event = { identity: { sessionId: 's' }, type: 'add', payload: { productId } };
      await until('the event is taken', async () => (await post('/event', event, productId)).status === 200);
    }
    const letters = await until('both are dead letters', async () => {
      const found = await list();
      return found.length === 2 && found;
    });
    await load.untilServed(50);
    await load.stop();
    t.same(
      letters.map(({ line }) => JSON.parse(line).product_id),
      ['poison-a', 'poison-b'],
    );
    for (const { code, reason, id } of letters) {
      t.equal(code, 469);
      t.match(reason, /Constraint `?no_poison`?/);
      t.match(id, /^0\/\d+-\d+$/);
    }

    const [a = '', b = ''] = letters.map(({ id }) => id);
    t.equal(await dead('retry', a), '1 put back\n');
    await until('it is refused again', async () => {
      const ids = (await list()).map(({ id }) => id);
      return ids.length === 2 && !ids.includes(a);
    });
    await analyst.command({ query: 'ALTER TABLE events_stored DROP CONSTRAINT no_poison' });
    t.equal(await dead('drop', b), '1 dropped\n');
    t.equal(await dead('retry', '--all'), '1 put back\n');
    await until('it is in ClickHouse', () => isShown('poison-a'));
    t.same(await list(), []);
    t.notOk(await isShown('poison-b'), 'the other one was dropped');
    load.events.set('poison-a', { sent: 1, acknowledged: 1 });
  },
);

t.test('after all of this everything that was acknowledged is there, once', async (t) => {
  for (const load of loads) t.comment(String(load));
  await service.exact(t, ...loads);
});
