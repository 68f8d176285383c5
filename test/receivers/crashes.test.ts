// Processes are killed between each two steps of a delivery's way: flushed, handed over, finalized, read, sent, settled. Each
// event arrives at least once, under its one id; and a process that is only late loses the streams and sends nothing more.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import t, { type Test } from 'tap';
import type { Step } from '../../src/flush/stream-flusher.js';
import type { DeliverStep } from '../../src/receivers/attempt.js';
import type { ProcessSpec } from '../faults/flusher-process.js';
import { FULL } from '../faults/service.js';
import { appendEvents, type EventRow, eventRow } from '../flush/fixtures.js';
import { openPipelines } from '../flush/pipelines.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import type { DeliverProcessSpec } from './deliver-process.js';
import { openDeliveries, startTool, type Tool } from './fixtures.js';

const DELIVER = new URL('./deliver-process.js', import.meta.url);
const FLUSH = new URL('../faults/flusher-process.js', import.meta.url);
const server = await startTestRedis(t);
const pipelines = await openPipelines(t, server);

function startProcess(t: Test, program: URL, spec: object): ChildProcess {
  const child = fork(program, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

const rows = (n: number): EventRow[] =>
  Array.from({ length: n }, (_, i) => eventRow({ profile_id: `7.p${i}`, payload: '{}' }));
const missing = (tool: Tool, sent: readonly string[]) => {
  const arrived = new Set(tool.delivered.map(({ id }) => id));
  return sent.filter((id) => !arrived.has(id));
};

for (const step of ['read', 'inserted', 'handedOver', 'acknowledged'] satisfies Step[])
  t.test(`a flusher is killed once ${step}: each event arrives`, async (t) => {
    const pipeline = await pipelines.fresh();
    const deliveries = await openDeliveries(t, server, pipeline.prefix);
    const tool = await startTool(t);
    const { id } = await deliveries.receiver(tool);
    const given = rows(50);
    await appendEvents(pipelines.redis, pipeline.keys, 0, given);
    const spec: ProcessSpec = {
      ...pipeline.processSpec,
      at: { step, signal: 'SIGKILL' },
    };
    t.same(await once(startProcess(t, FLUSH, spec), 'exit'), [null, 'SIGKILL']);
    const { queue } = pipeline.keys.deliveries(0, id);
    const isHandedOver = step === 'handedOver' || step === 'acknowledged';
    t.equal(await pipelines.redis.xlen(queue), isHandedOver ? 50 : 0, 'it was killed at its point');

    const flusher = pipeline.flusher({ abandonedMs: 200, handOver: deliveries.handOver.handOver });
    deliveries.deliverer();
    await pipeline.drained();
    await until(
      'all have arrived',
      () =>
        missing(
          tool,
          given.map(({ event_id }) => event_id),
        ).length === 0,
    );
    await flusher.close();
    t.equal(new Set(tool.delivered.map(({ id }) => id)).size, 50);
    t.same(tool.faults, []);
  });

for (const step of ['read', 'sent', 'settled'] satisfies DeliverStep[])
  for (const nth of FULL ? [1, 2, 7, 16, 17, 40] : [1, 17])
    t.test(`a deliverer is killed when the ${nth}th was ${step}: each event arrives`, async (t) => {
      const prefix = `k${step}${nth}`;
      const deliveries = await openDeliveries(t, server, prefix);
      const tool = await startTool(t);
      await deliveries.receiver(tool);
      const sent = await deliveries.send(0, ...Array(100).fill({}));
      tool.answer = (res) => void setTimeout(() => res.end(), 3);
      const spec: DeliverProcessSpec = {
        ...{ redisUrls: server.urls, prefix, owner: 'a', silentMs: 500 },
        at: { step, nth: step === 'settled' ? Math.ceil(nth / 16) : nth, signal: 'SIGKILL' },
      };
      t.same(await once(startProcess(t, DELIVER, spec), 'exit'), [null, 'SIGKILL']);
      t.not(missing(tool, sent).length, 0, 'it was killed before the end');
      const before = tool.delivered.length;
      deliveries.deliverer({ owner: 'b', silentMs: 500 });
      await until('all have arrived', () => missing(tool, sent).length === 0);
      // What was in flight, and no more, may come twice.
      t.ok(tool.delivered.length <= 100 + 2 * 16, `${before} before, ${tool.delivered.length} in all`);
      t.same(tool.faults, []);
    });

t.test(
  'a deliverer that was frozen while another took over sends nothing more of what that has',
  async (t) => {
    const prefix = 'frozen';
    const deliveries = await openDeliveries(t, server, prefix);
    const tool = await startTool(t);
    await deliveries.receiver(tool);
    const sent = await deliveries.send(0, ...Array(300).fill({}));
    const spec: DeliverProcessSpec = {
      ...{ redisUrls: server.urls, prefix, owner: 'older', silentMs: 500 },
      at: { step: 'sent', nth: 30, signal: 'SIGSTOP' },
    };
    const child = startProcess(t, DELIVER, spec);
    await until('it has begun', () => tool.delivered.length >= 30);
    const ownerOf = () => pipelines.redis.hget(deliveries.store.keys.deliveryOwner(0), 'owner');
    deliveries.deliverer({ owner: 'newer', silentMs: 500 });
    await until('the newer one owns it', async () => (await ownerOf()) === 'newer');
    child.kill('SIGCONT');
    await until('all have arrived', () => missing(tool, sent).length === 0);
    t.equal(await ownerOf(), 'newer');
    t.ok(tool.delivered.length <= 300 + 3 * 16, `${tool.delivered.length} in all`);
  },
);
