// Operations of different ages that wait for the same lanes: each is refused for its own lateness only, and none is
// applied after it was refused. Here calls on their way to Redis are held back, so that operations grow old.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { Batcher } from '../../src/redis/batcher.js';
import { LUA } from '../../src/redis/lua-codes.js';
import type { RedisNode } from '../../src/redis/node.js';
import { scriptOf } from '../../src/redis/scripts.js';
import { Sender } from '../../src/redis/sender.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { LINES, type Line, linesOf, openHealth } from './fixtures.js';

const TIMEOUT_MS = 60_000;

const LANES = 4;

/** By how much the clock of this process is ahead of the real one: minutes pass in a moment. */
let ahead = 0;
const now = performance.now.bind(performance);
performance.now = () => now() + ahead;

const NODE = 'node:1';

const { name, source } = LINES.script;
/** All of them in one stream; a script for a node gets flags of its own. */
const ONE_STREAM: typeof LINES = {
  ...LINES,
  script: scriptOf(name, source.replace(/^#!.*\n/, '')),
  tag: () => 'a',
  mixesTags: true,
};

t.test('an operation that is late', async (t) => {
  const redis = await startTestRedis(t);
  const { client, health, keys } = await openHealth(t, redis.url, TIMEOUT_MS);
  const sender = new Sender(health, 0);
  t.beforeEach(() => client.del('b:{a}:stream', 'b:{a}:state'));
  const lines = () => linesOf(client, 'a');

  /** Batches of the test's batcher that are on their way, or were. */
  let sent = 0;
  /** A batcher whose calls wait for `hold` before each goes to Redis. */
  const heldBatcher = (hold: (batch: number) => unknown, isCluster = false, addressOf = () => '') => {
    sent = 0;
    const held = {
      async send(...args: Parameters<Sender['send']>) {
        const answer = await hold(sent++);
        return answer ?? sender.send(...args);
      },
    } as unknown as Sender;
    return new Batcher<Line, unknown>(ONE_STREAM, {
      sender: held,
      health: { isCircuitOpen: false, addressOf, refreshSlots: () => {} },
      laneKey: keys.lane,
      nodeTag: () => undefined,
      isCluster,
      timeoutMs: TIMEOUT_MS,
      maxPending: 100,
    });
  };
  const outcomeOf = (batcher: Batcher<Line, unknown>, line: string) =>
    batcher.run({ line }).then(
      () => 'applied',
      ({ code }) => code,
    );
  const occupyLanes = async (batcher: Batcher<Line, unknown>) => {
    const busy = [];
    for (let lane = 0; lane < LANES; lane++) {
      const before = sent;
      busy.push(outcomeOf(batcher, `lane${lane}`));
      await until('it has a lane of its own', () => sent > before);
    }
    return busy;
  };
  /** Sets our clock ahead, until what was born then has had this share of its time. */
  const growOld = async (born: number, share: number) => {
    ahead = Math.max(ahead, born + TIMEOUT_MS * share + 1 - now());
    await health.nodeOf(0)?.clock.measure(client);
  };

  t.test('is refused on its own; younger ones that waited with it are applied', async (t) => {
    const [released, release] = later<void>();
    const batcher = heldBatcher((batch) => (batch < LANES ? released : undefined));
    const busy = await occupyLanes(batcher);
    const born = performance.now();
    const old = outcomeOf(batcher, 'old');
    await growOld(born, 0.85);
    const young = ['young1', 'young2'].map((line) => outcomeOf(batcher, line));
    release();
    await Promise.all(busy);
    t.equal(await old, 'unavailable');
    t.same(await Promise.all(young), ['applied', 'applied']);
    t.equal(sent, LANES + 1, 'Redis was not asked for what it would refuse');
    t.notOk((await lines()).includes('old'), 'refused, and so not applied');
    await batcher.close();
  });

  t.test('does not take younger ones down when Redis is slow, too', async (t) => {
    const [released, release] = later<void>();
    const [awake, wake] = later<void>();
    const batcher = heldBatcher((batch) => (batch < LANES ? released : awake));
    const busy = await occupyLanes(batcher);
    const born = performance.now();
    const old = outcomeOf(batcher, 'old');
    await growOld(born, 0.5);
    const young = outcomeOf(batcher, 'young');
    release();
    await Promise.all(busy);
    await growOld(born, 0.85);
    wake();
    t.equal(await old, 'unavailable');
    t.equal(await young, 'applied');
    t.notOk((await lines()).includes('old'), 'refused, and so not applied');
    await batcher.close();
  });

  t.test(
    'and is sent again, since its stream was not there, keeps its deadline among younger ones',
    async (t) => {
      const [released, release] = later<void>();
      const [moved, move] = later<number>();
      let address: string | undefined = NODE;
      const batcher = heldBatcher(
        (batch) => (batch === 0 ? moved : batch <= LANES ? released : undefined),
        true,
        () => address as string,
      );
      const born = performance.now();
      const old = outcomeOf(batcher, 'old');
      await until('it is sent', () => sent === 1);
      address = undefined;
      const busy = await occupyLanes(batcher);
      await growOld(born, 0.5);
      const young = outcomeOf(batcher, 'young');
      move(LUA.NO_STREAM);
      await growOld(born, 0.85);
      release();
      await Promise.all(busy);
      t.equal(await old, 'unavailable');
      t.equal(await young, 'applied');
      t.notOk((await lines()).includes('old'), 'refused, and so not applied');
      await batcher.close();
    },
  );
});

t.test('callers who wait for replicas together wait as long as the youngest may', async (t) => {
  const timeoutMs = 10_000;
  const [master, replica] = await Promise.all(
    [1, 2].map(async () => startTestRedis(t, { port: await freePort(), restart: false })),
  );
  if (master === undefined || replica === undefined) throw new Error('no Redis');
  const { client, health } = await openHealth(t, master.url, timeoutMs);
  const toReplica = connectTo(t, replica.url);
  await client.config('SET', 'repl-diskless-sync-delay', '0');
  for (const redis of [client, toReplica]) await redis.config('SET', 'requirepass', '');
  const link = await startProxy(t, master.url);
  await toReplica.replicaof('127.0.0.1', link.port);
  await until('the replica follows', async () => (await client.wait(1, 100)) === 1);

  const node = health.nodeOf(0) as RedisNode;
  link.freeze();
  const began = performance.now();
  const old = node.replicated(1, began + timeoutMs * 0.2 + 50).then(() => 'replicated', String);
  const young = node.replicated(1, began + timeoutMs).then(() => 'replicated', String);
  await sleep(200);
  link.thaw();
  t.equal(await young, 'replicated');
  await old;
});

function later<T>(): [Promise<T>, (value: T) => void] {
  let settle: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    settle = resolve;
  });
  return [promise, settle];
}
