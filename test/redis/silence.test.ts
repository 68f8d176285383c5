// A connection whose other end is frozen: kept while a command on it may still be answered in time, cut afterwards.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import t from 'tap';
import { connectRedis } from '../../src/redis/client.js';
import { isPassing } from '../../src/redis/failures.js';
import { isSilent, SilentConnectionError } from '../../src/redis/silence.js';
import { startTestRedis } from '../harness/redis.js';
import { stalledMs } from '../harness/stalls.js';

const TIMEOUT_MS = 1_000;
const TRIES = 5;

t.test('a Redis that is frozen', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const pid = redis.pids[0] as number;
  t.teardown(() => process.kill(pid, 'SIGCONT'));
  const errors: Error[] = [];
  const options = { urls: [redis.url], name: 'test', timeoutMs: TIMEOUT_MS };
  const client = (await connectRedis(options, (error) => errors.push(error))) as Redis;
  t.teardown(() => client.disconnect());
  let closed = 0;
  client.on('close', () => closed++);
  const settled = (call: Promise<unknown>) => call.catch((error: Error) => error);

  t.test(
    'for a little longer than the time-out: later commands are answered on the same connection',
    async (t) => {
      const freeze = async () => {
        while (client.status !== 'ready') await sleep(5);
        closed = 0;
        const before = stalledMs();
        process.kill(pid, 'SIGSTOP');
        const began = performance.now();
        const first = settled(client.ping());
        await sleep(TIMEOUT_MS * 0.8);
        const late = settled(client.ping());
        while (!isSilent(client) && performance.now() - began < TIMEOUT_MS * 1.7) await sleep(5);
        const wasSilent = isSilent(client);
        process.kill(pid, 'SIGCONT');
        const answers = await Promise.all([first, late]);
        return { wasSilent, answers, closed, stalled: stalledMs() - before > TIMEOUT_MS * 0.2 };
      };
      let frozen = await freeze();
      // On a machine that stalls meanwhile it is frozen for longer.
      for (let again = 1; frozen.closed > 0 && frozen.stalled && again < TRIES; again++)
        frozen = await freeze();
      t.ok(frozen.wasSilent, 'it counts as silent');
      t.same(frozen.answers, ['PONG', 'PONG']);
      t.equal(frozen.closed, 0, 'it was not cut');
      while (isSilent(client)) await sleep(5);
      t.pass('it is heard again');
    },
  );

  t.test('for long: it is cut, and made anew', async (t) => {
    closed = 0;
    process.kill(pid, 'SIGSTOP');
    const error = await settled(client.ping());
    t.ok(error instanceof Error && isPassing(error), String(error));
    t.equal(closed, 1);
    t.ok(errors.some((one) => one instanceof SilentConnectionError));
    await sleep(TIMEOUT_MS * 2);
    process.kill(pid, 'SIGCONT');
    while (client.status !== 'ready') await sleep(5);
    t.equal(await client.ping(), 'PONG');
  });

  t.test('an idle connection is left alone', async (t) => {
    const before = closed;
    await sleep(TIMEOUT_MS * 2.5);
    t.equal(closed, before);
  });
});
