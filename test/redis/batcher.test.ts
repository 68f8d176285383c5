// Batches: exactly once when replies are lost, and deadlines of operations of different ages that wait for one batch.

import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import type { BatchFormat } from '../../src/redis/batch-calls.js';
import { Batcher, type BatcherOptions } from '../../src/redis/batcher.js';
import { createKeys } from '../../src/redis/keys.js';
import { LUA } from '../../src/redis/lua-codes.js';
import type { RedisNode } from '../../src/redis/node.js';
import { loadScript, scriptOf } from '../../src/redis/scripts.js';
import { Sender } from '../../src/redis/sender.js';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { openStore } from '../harness/store.js';
import { until } from '../harness/until.js';
import { LINES, type Line, linesOf, openHealth } from './fixtures.js';

const PATH = '/product/visit';
const visitOf = (sessionId: string) => ({ identity: { sessionId }, productHandle: 'x' });
const callOf = (script: string) => new RegExp(loadScript(script).sha);
t.test('batches over a connection that fails', async (t) => {
  const redis = await startTestRedis(t);
  const proxy = await startProxy(t, redis.url);
  const app = await startApp(t, { urls: [proxy.url] }, { timeoutMs: 20_000 });
  const hasty = await startApp(t, { urls: [proxy.url] }, { prefix: app.prefix, timeoutMs: 1_000 });
  const direct = connectTo(t, redis.url);

  t.test('a visit whose reply is lost, whole or in part, is counted once and answered 200', async (t) => {
    await app.post(`${PATH}?count=true`, visitOf('lost'));
    for (const [i, bytes] of [0, 1, 2, 5, 9].entries()) {
      proxy.cutReplyAfter(bytes, callOf('visits/countVisits'));
      const answer = await app.post(`${PATH}?count=true`, visitOf('lost'));
      t.match(answer, { status: 200, json: { count: i + 2 } }, `cut after ${bytes} bytes`);
      t.equal(proxy.cuts, i + 1, 'the reply was lost');
    }
  });

  t.test('a batch whose reply is lost answers each of its requests with its own count', async (t) => {
    for (let round = 1; round <= 5; round++) {
      proxy.cutReplyAfter(round * 100, callOf('visits/countVisits'));
      const answers = await Promise.all(
        Array.from({ length: 200 }, () => app.post(`${PATH}?count=true`, visitOf('many'))),
      );
      const counts = answers.map(({ json }) => json.count).sort((a, b) => a - b);
      const expected = Array.from({ length: 200 }, (_, i) => (round - 1) * 200 + i + 1);
      t.same(counts, expected);
    }
  });

  t.test('an event whose reply is lost is in the stream once', async (t) => {
    const { events, eventsState } = createKeys(app.prefix);
    const event = (n: number) => ({ identity: { sessionId: 's' }, type: 'add', payload: { n } });
    await app.post('/event', event(0), TRUSTED);
    const cuts = proxy.cuts;
    for (let n = 1; n <= 5; n++) {
      proxy.cutReplyAfter(n % 3, callOf('events/recordEvents'));
      t.equal((await app.post('/event', event(n), TRUSTED)).status, 200);
      t.equal(proxy.cuts, cuts + n, 'the reply was lost');
    }
    const lines = (await direct.xrange(events(0), '-', '+')).flatMap(
      ([, fields]) => fields[3]?.trim().split('\n') ?? [],
    );
    const numbers = lines.map((line) => JSON.parse(JSON.parse(line).payload).n);
    t.same(numbers, [0, 1, 2, 3, 4, 5]);
    t.equal(await direct.hget(eventsState(0), 'events'), '6');
  });

  t.test('an acknowledged visit is counted once, whenever its connection is cut', async (t) => {
    let acknowledged = 0;
    let sent = 0;
    let cutting = true;
    const cuts = (async () => {
      // Connections last longer and longer: long enough for an answer on any machine.
      for (let most = 50; cutting; most += 10) {
        await sleep(10 + Math.random() * most);
        proxy.dropAll();
      }
    })();
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        while (acknowledged < 200) {
          sent++;
          const { status } = await hasty.post(PATH, visitOf('cut'));
          if (status === 200) acknowledged++;
          else t.equal(status, 503);
        }
      }),
    );
    cutting = false;
    await cuts;
    await untilServed();
    const { count } = (await app.get(withQuery(PATH, { sessionId: 'cut', productHandle: 'x' }))).json;
    const isRight = acknowledged > 0 && count >= acknowledged && count <= sent;
    t.ok(isRight, `${acknowledged} acknowledged, ${count} counted, ${sent} sent`);
  });

  async function untilServed(): Promise<void> {
    for (const one of [app, hasty])
      await until('it serves', async () => (await one.get('/readyz')).status === 200);
  }
});
const ECHOED: BatchFormat<Line, unknown> = {
  ...LINES,
  decode: (ops, reply) => ops.map(({ line }) => [line, reply]),
};
t.test('a batcher', async (t) => {
  const redis = await startTestRedis(t);
  const direct = connectTo(t, redis.url);
  const onError = (error: Error) => t.fail(error.message);
  const store = await openStore(t, redis, { keyPrefix: 'b', buckets: 16, onError });

  t.test('operations of one tick are one call, and each gets its own reply', async (t) => {
    const sizes: number[] = [];
    const batcher = store.batcher(ECHOED, (size) => sizes.push(size));
    const runAll = (...lines: string[]) => Promise.all(lines.map((line) => batcher.run({ line })));
    t.same((await runAll('a1', 'a2', 'a3')).map(String), ['a1,1', 'a2,1', 'a3,1']);
    t.same(sizes, [3]);
    await runAll('a4', 'b1', 'a5');
    t.same(sizes.sort(), [1, 2, 3], 'a call for each slot');
    t.equal(batcher.pending, 0);
    await batcher.close();
  });

  t.test('a tick of more than 512 operations is cut into batches of 512', async (t) => {
    const sizes: number[] = [];
    const batcher = store.batcher(ECHOED, (size) => sizes.push(size));
    await Promise.all(Array.from({ length: 3_000 }, (_, i) => batcher.run({ line: `c${i}` })));
    t.same(sizes.sort(), [440, 512, 512, 512, 512, 512]);
    t.equal(await direct.hget('b:{c}:state', 'events'), '3000');
    await batcher.close();
  });

  t.test('beyond 20,000 waiting operations new ones are refused, and the others are done', async (t) => {
    const batcher = store.batcher(ECHOED);
    const all = Array.from({ length: 20_100 }, (_, i) => batcher.run({ line: `e${i}` }));
    const settled = await Promise.allSettled(all);
    const refused = settled.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[];
    t.equal(refused.length, 100);
    t.ok(refused.every(({ reason }) => reason.code === 'overloaded'));
    t.equal(await direct.hget('b:{e}:state', 'events'), '20000');
    await batcher.close();
  });
});
t.test('a batch', async (t) => {
  const redis = await startTestRedis(t);
  const proxy = await startProxy(t, redis.url);
  const direct = connectTo(t, redis.url);
  const timeoutMs = 20_000;
  const { health, keys } = await openHealth(t, proxy.url, timeoutMs);
  const batcherOf = (format: BatchFormat<Line, unknown>, more: Partial<BatcherOptions> = {}) =>
    new Batcher<Line, unknown>(format, {
      sender: new Sender(health, 0),
      health,
      senderChannelKey: keys.senderChannel,
      nodeTag: () => undefined,
      isCluster: false,
      timeoutMs,
      maxPending: 100,
      ...more,
    });
  const batcher = batcherOf({ ...LINES, writes: ({ line }) => line.includes('write') });
  t.test('a batch that Redis wrongly calls late gets a new deadline', async (t) => {
    // A clock that was set since it was measured: this one says that it is 1970.
    const { clock } = health.nodeOf(0) as RedisNode;
    await clock.measure({ time: async () => [0, 0] } as never);
    t.equal(await batcher.run({ line: 'a-write' }), 1);
    t.same(await linesOf(direct, 'a'), ['a-write']);
    t.ok(clock.at(performance.now()) > Date.UTC(2020), 'the clock was asked again');
  });

  t.test('a batch of reads and writes is numbered, and so applied once', async (t) => {
    proxy.cutReplyAfter(0, callOf('events/appendEvents'));
    const answers = await Promise.all(['m-read', 'm-write', 'm-read'].map((op) => batcher.run({ line: op })));
    t.same(answers, [1, 1, 1]);
    t.equal(proxy.cuts, 1, 'the reply was lost');
    t.same(await linesOf(direct, 'm'), ['m-read', 'm-write', 'm-read'], 'once');
    const [channel = ''] = await direct.keys('b:{m}:channel:*');
    t.equal(await direct.exists(channel), 1, 'it has a number, and so a record');
  });

  t.test('a batch sent to a demoted Redis waits for the new primary', async (t) => {
    await direct.replicaof('127.0.0.1', await freePort());
    const answer = batcher.run({ line: 'd-write' });
    await sleep(300);
    await direct.replicaof('NO', 'ONE');
    t.equal(await answer, 1);
    t.same(await linesOf(direct, 'd'), ['d-write']);
  });

  t.test(
    'an operation that waits until its deadline is refused, and no longer counts as waiting',
    async (t) => {
      const timeoutMs = 300;
      const stall = () => {
        const until = performance.now() + timeoutMs + 50;
        while (performance.now() < until);
      };

      t.test(
        'an operation is refused if its tick outlasts its deadline, and closing does not wait for it',
        async (t) => {
          const batcher = batcherOf(LINES, { timeoutMs, maxPending: 10_000 });
          const late = t.rejects(batcher.run({ line: 'late' }), { code: 'unavailable' });
          const closed = batcher.close();
          stall();
          await late;
          await closed;
          t.equal(await direct.exists('b:{l}:stream'), 0, 'nothing was done');
        },
      );

      t.test('an operation is refused if all sender channels are busy until its deadline', async (t) => {
        const batcher = batcherOf(LINES, { timeoutMs, maxPending: 10_000 });
        await direct.client('PAUSE', 60_000, 'WRITE');
        const all = Array.from({ length: 4 * 512 + 10 }, (_, i) => batcher.run({ line: `l${i}` }));
        stall();
        const settled = await Promise.allSettled(all);
        t.ok(settled.every((one) => one.status === 'rejected' && one.reason.code === 'unavailable'));
        t.equal(batcher.pending, 0);
        await direct.client('UNPAUSE');
      });
    },
  );
});

const TIMEOUT_MS = 60_000;
const CHANNELS = 4;
/** How far this process's clock is ahead, so that minutes pass in a moment. */
let ahead = 0;
const now = performance.now.bind(performance);
performance.now = () => now() + ahead;
const NODE = 'node:1';
const { name, source } = LINES.script;
/** All lines in one stream, without the script's flags: a script for a node gets flags of its own. */
const ONE_STREAM: typeof LINES = {
  ...LINES,
  script: scriptOf(name, source.replace(/^#!.*\n/, '')),
  tag: () => 'a',
  mixesTags: true,
};
t.test('a late operation', async (t) => {
  const redis = await startTestRedis(t);
  const { client, health, keys } = await openHealth(t, redis.url, TIMEOUT_MS);
  const sender = new Sender(health, 0);
  t.beforeEach(() => client.del('b:{a}:stream', 'b:{a}:state'));

  /** Batches that the test's batcher has sent. */
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
      senderChannelKey: keys.senderChannel,
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
  const occupyChannels = async (batcher: Batcher<Line, unknown>) => {
    const busy = [];
    for (let channel = 0; channel < CHANNELS; channel++) {
      const before = sent;
      busy.push(outcomeOf(batcher, `channel${channel}`));
      await until('it has a channel of its own', () => sent > before);
    }
    return busy;
  };
  /** Sets the clock ahead so that an operation begun at `born` has used this share of its time-out. */
  const growOld = async (born: number, share: number) => {
    ahead = Math.max(ahead, born + TIMEOUT_MS * share + 1 - now());
    await health.nodeOf(0)?.clock.measure(client);
  };

  /** The late operation is refused, and so not applied; younger ones are applied. */
  const expectOldRefused = async (t: Test, batcher: Batcher<Line, unknown>, ...all: Promise<string>[]) => {
    t.same(await Promise.all(all), ['unavailable', ...all.slice(1).map(() => 'applied')]);
    t.notOk((await linesOf(client, 'a')).includes('old'));
    await batcher.close();
  };

  t.test('a late operation is refused alone, and younger ones that waited with it are applied', async (t) => {
    const [released, release] = later<void>();
    const batcher = heldBatcher((batch) => (batch < CHANNELS ? released : undefined));
    const busy = await occupyChannels(batcher);
    const born = performance.now();
    const old = outcomeOf(batcher, 'old');
    await growOld(born, 0.85);
    const young = ['young1', 'young2'].map((line) => outcomeOf(batcher, line));
    release();
    await Promise.all(busy);
    await expectOldRefused(t, batcher, old, ...young);
    t.equal(sent, CHANNELS + 1, 'Redis was not asked for what it would refuse');
  });

  t.test('a late operation does not take younger ones down if Redis is slow', async (t) => {
    const [released, release] = later<void>();
    const [awake, wake] = later<void>();
    const batcher = heldBatcher((batch) => (batch < CHANNELS ? released : awake));
    const busy = await occupyChannels(batcher);
    const born = performance.now();
    const old = outcomeOf(batcher, 'old');
    await growOld(born, 0.5);
    const young = outcomeOf(batcher, 'young');
    release();
    await Promise.all(busy);
    await growOld(born, 0.85);
    wake();
    await expectOldRefused(t, batcher, old, young);
  });

  t.test('an operation that is sent again because its stream is missing keeps its deadline', async (t) => {
    const [released, release] = later<void>();
    const [moved, move] = later<number>();
    let address: string | undefined = NODE;
    const batcher = heldBatcher(
      (batch) => (batch === 0 ? moved : batch <= CHANNELS ? released : undefined),
      true,
      () => address as string,
    );
    const born = performance.now();
    const old = outcomeOf(batcher, 'old');
    await until('it is sent', () => sent === 1);
    address = undefined;
    const busy = await occupyChannels(batcher);
    await growOld(born, 0.5);
    const young = outcomeOf(batcher, 'young');
    move(LUA.NO_STREAM);
    await growOld(born, 0.85);
    release();
    await Promise.all(busy);
    await expectOldRefused(t, batcher, old, young);
  });
});
function later<T>(): [Promise<T>, (value: T) => void] {
  let settle: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    settle = resolve;
  });
  return [promise, settle];
}
