// A row that ClickHouse will not take, in the middle of a batch, under load: it alone becomes a dead letter, with
// the reason, and `wishmeter dead` lists it, sends it again and drops it.

import t from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { until, wishmeter } from '../cli/wishmeter.js';
import { openService } from './service.js';

// Batches of a second's events: the poison is somewhere in the middle of one.
const service = await openService({ env: { FLUSH_INTERVAL_MS: '1000' } });
t.teardown(() => service.stop());
const clickhouse = createClickHouse(service.clickhouseUrl, 'wishmeter');
t.teardown(() => clickhouse.close());

const sendEvent = async (productId: string) => {
  const answer = await fetch(`${service.url}/event`, {
    method: 'POST',
    headers: { 'x-api-key': service.key, 'content-type': 'application/json' },
    body: JSON.stringify({ identity: { sessionId: 'poisoner' }, type: 'add', payload: { productId } }),
  });
  t.equal(answer.status, 200);
};
const dead = async (...args: string[]) => {
  const { code, stdout, stderr } = await wishmeter({
    args: ['dead', ...args],
    env: { REDIS_URL: service.redisUrl },
  });
  if (code !== 0) throw new Error(stderr);
  return stdout;
};
const listed = async () =>
  (await dead('list'))
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { id: string; code: number; reason: string; line: string });
const count = async (productId: string) => {
  const answer = await clickhouse.query({
    query: 'SELECT toUInt32(count()) AS n FROM events WHERE product_id = {id: String}',
    query_params: { id: productId },
    format: 'JSONEachRow',
  });
  return (await answer.json<{ n: number }>())[0]?.n;
};

t.test('poison in the middle of a batch', { timeout: 180_000 }, async (t) => {
  await clickhouse.command({
    query: "ALTER TABLE events_stored ADD CONSTRAINT no_poison CHECK NOT startsWith(product_id, 'poison')",
  });
  const load = service.load({ seed: 6 });
  await load.untilServed();
  await sendEvent('poison-a');
  await sendEvent('poison-b');
  await until('both are dead letters', async () => (await listed()).length === 2);
  const after = load.events.size;
  await load.untilServed();
  await load.stop();
  t.ok(after > 0);

  const letters = await listed();
  t.same(
    letters.map(({ line }) => (JSON.parse(line) as { product_id: string }).product_id),
    ['poison-a', 'poison-b'],
    'those two alone',
  );
  for (const { code, reason, id } of letters) {
    t.equal(code, 469);
    t.match(reason, /Constraint `?no_poison`?/);
    t.match(id, /^0\/\d+-\d+$/);
  }

  const [a, b] = letters as unknown as [{ id: string }, { id: string }];
  t.equal(await dead('retry', a.id), '1 put back\n');
  await until('it is refused again', async () => {
    const ids = (await listed()).map(({ id }) => id);
    return ids.length === 2 && !ids.includes(a.id);
  });
  t.equal(await count('poison-a'), 0);

  await clickhouse.command({ query: 'ALTER TABLE events_stored DROP CONSTRAINT no_poison' });
  t.equal(await dead('drop', b.id), '1 dropped\n');
  t.equal(await dead('retry', '--all'), '1 put back\n');
  await until('the cause is mended: it is there', async () => (await count('poison-a')) === 1);
  t.same(await listed(), []);
  t.equal(await count('poison-b'), 0, 'what was dropped is gone');

  // The reckoning knows only what the load has sent.
  load.events.set('poison-a', { sent: 1, acknowledged: 1 });
  await service.exact(t, load);
});
