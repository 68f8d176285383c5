// The times that the contract names, as they are where no test has set shorter ones: when what failed is tried again, and how
// long an answer may take.

import t from 'tap';
import { Addresses } from '../../src/receivers/address.js';
import { Connection } from '../../src/receivers/post.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { openDeliveries, startTool } from './fixtures.js';

const [S, MIN, H] = [1_000, 60_000, 3_600_000] as const;
const WAITS = [5 * S, 5 * MIN, 30 * MIN, 2 * H, 5 * H, 10 * H, 14 * H, 20 * H, 24 * H];

t.test(
  'what fails is tried again after the times of the contract, each with jitter, then it is dead',
  async (t) => {
    const deliveries = await openDeliveries(t, await startTestRedis(t), 'attempts');
    const tool = await startTool(t);
    const { id } = await deliveries.receiver(tool);
    tool.answer = (res) => void res.writeHead(500).end();
    await deliveries.send(0, {});
    const { client, keys } = deliveries.store;
    const { queue, taken, dead } = keys.deliveries(0, id);
    const [[entry] = ['']] = await client.xrange(queue, '-', '+');
    deliveries.deliverer({ retriesMs: undefined });
    const jitters: number[] = [];
    for (const [i, wait] of WAITS.entries()) {
      const score = await until(`attempt ${i + 1} has failed`, async () => {
        const score = Number(await client.zscore(taken, entry));
        return score % 16 === i + 1 && score;
      });
      const { lastFailureAt } = await deliveries.receivers.standOf(id);
      const jitter = (Math.floor(score / 16) - lastFailureAt) / wait - 1;
      t.ok(jitter >= 0 && jitter <= 0.1 + 1 / wait, `${jitter} after attempt ${i + 1}`);
      jitters.push(jitter);
      await client.zadd(taken, i + 1, entry); // due long ago
    }
    t.ok(new Set(jitters).size > 1, 'not all the same');
    await until('it is a dead letter', async () => (await client.xlen(dead)) === 1);
    t.equal(tool.delivered.length, 10);
    t.equal(new Set(tool.delivered.map((one) => one.id)).size, 1);
  },
);

t.test('an answer may take 15 s', async (t) => {
  const tool = await startTool(t);
  const connection = new Connection(new Addresses(true));
  t.teardown(() => connection.close());
  const timers = t.capture(globalThis, 'setTimeout', globalThis.setTimeout);
  t.same(await connection.post(tool.url, {}, '{}'), { status: 200 });
  const longest = Math.max(...timers().map(({ args: [, ms = 0] }) => ms));
  t.ok(longest > 14_900 && longest <= 15_000, `${longest} ms`);
});
