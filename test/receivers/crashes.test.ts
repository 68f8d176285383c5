// Processes are killed between each two steps of a delivery's way: read, inserted, handed over, acknowledged; taken, sent, settled.
// Each event arrives at least once, under its one id. What a process had in flight, and no more, may come twice.

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
/** Of the process that is killed or frozen: it is so long that what it sends itself is settled in it. */
const LEASE_MS = 2_000;
const AT_ONCE = 16;
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
        ...{ redisUrls: server.urls, prefix, leaseMs: LEASE_MS },
        at: { step, nth: step === 'settled' ? Math.ceil(nth / 16) : nth, signal: 'SIGKILL' },
      };
      t.same(await once(startProcess(t, DELIVER, spec), 'exit'), [null, 'SIGKILL']);
      t.not(missing(tool, sent).length, 0, 'it was killed before the end');
      const before = tool.delivered.length;
      deliveries.deliverer();
      await until('all have arrived', () => missing(tool, sent).length === 0);
      t.ok(tool.delivered.length <= 100 + AT_ONCE, `${before} before, ${tool.delivered.length} in all`);
      t.same(tool.faults, []);
    });

for (const step of ['read', 'sent'] satisfies DeliverStep[])
  t.test(`a deliverer is frozen when one was ${step}, and wakes up once another had its work`, async (t) => {
    const prefix = `f${step}`;
    const deliveries = await openDeliveries(t, server, prefix);
    const tool = await startTool(t);
    const { id } = await deliveries.receiver(tool);
    const sent = await deliveries.send(0, ...Array(300).fill({}));
    const spec: DeliverProcessSpec = {
      ...{ redisUrls: server.urls, prefix, leaseMs: LEASE_MS },
      at: { step, nth: 30, signal: 'SIGSTOP' },
    };
    const child = startProcess(t, DELIVER, spec);
    const [stopped] = await once(child, 'message');
    t.equal(stopped, 'stopping');
    deliveries.deliverer();
    await until('all have arrived', () => missing(tool, sent).length === 0);
    const { pending } = await until('nothing waits', async () => {
      const stand = await deliveries.receivers.standOf(id);
      return stand.pending === 0 && stand;
    });
    t.equal(pending, 0);
    child.kill('SIGCONT');
    const [, ...more] = await deliveries.send(0, ...Array(50).fill({}));
    await until('both go on', () => missing(tool, more).length === 0);
    t.ok(tool.delivered.length <= 350 + AT_ONCE, `${tool.delivered.length} in all`);
    t.same(tool.faults, []);
  });

t.test('what a process has in flight is given to no other, though it takes its time', async (t) => {
  const deliveries = await openDeliveries(t, server, 'beside');
  const tool = await startTool(t);
  const { id } = await deliveries.receiver(tool);
  const spec: DeliverProcessSpec = { redisUrls: server.urls, prefix: 'beside', leaseMs: 60_000 };
  tool.answer = (res) => void setTimeout(() => res.end(), 500);
  const sent = await deliveries.send(0, ...Array(100).fill({}));
  for (let i = 0; i < 2; i++) startProcess(t, DELIVER, spec);
  await until('both send', () => tool.mostAtOnce > AT_ONCE);
  await until('nothing waits', async () => (await deliveries.receivers.standOf(id)).pending === 0);
  t.same(tool.delivered.map((one) => one.id).sort(), [...sent].sort());
});
