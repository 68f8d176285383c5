// Single calls: how long Redis is waited for, by deadlines of ours, the clock of a node and connections whose other end is
// frozen. A change that was answered 503 is not applied later, and one whose reply was lost is asked for again.

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import t from 'tap';
import { connectRedis } from '../../src/redis/client.js';
import { RedisClock } from '../../src/redis/clock.js';
import { before } from '../../src/redis/deadline.js';
import { isPassing } from '../../src/redis/failures.js';
import { loadScript } from '../../src/redis/scripts.js';
import { isSilent, SilentConnectionError, silenceOf } from '../../src/redis/silence.js';
import { Store, type StoreOptions } from '../../src/redis/store.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

const PUT = loadScript('put');
const GET = { name: 'get', source: "return redis.call('GET', KEYS[1])", sha: '0'.repeat(40) };
const OPTIONS = {
  name: 'test',
  timeoutMs: 30_000,
  keyPrefix: 's',
  buckets: 16,
  onError: () => {},
};

t.test('a deadline', async (t) => {
  t.test('is beaten by a reply in the socket, however late the timer is noticed', async (t) => {
    const dir = await mkdtemp(join(tmpdir(), 'wm-deadline-'));
    const server = createServer().listen(join(dir, 'socket'));
    await once(server, 'listening');
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const client = connect(join(dir, 'socket'));
    const [peer] = await accepted;
    t.teardown(async () => {
      for (const end of [client, peer, server]) 'destroy' in end ? end.destroy() : end.close();
      await rm(dir, { recursive: true });
    });
    for (let round = 0; round < 5; round++) {
      const reply = new Promise((resolve) => client.once('data', (bytes) => resolve(String(bytes))));
      const deadline = performance.now() + 5;
      const answer = before(deadline, reply);
      peer.write('PONG'); // in the client's socket when it returns
      while (performance.now() < deadline + 5);
      t.equal(await answer, 'PONG');
    }
  });

  t.test('makes what has no reply unavailable', async (t) => {
    const began = performance.now();
    await t.rejects(before(began + 50, new Promise(() => {})), { code: 'unavailable' });
    t.ok(performance.now() - began >= 49);
    await t.rejects(before(began - 1, new Promise(() => {})), { code: 'unavailable' }, 'one that is past');
    await t.rejects(before(began + 1_000_000, Promise.reject(new Error('other'))), { message: 'other' });
    t.equal(await before(began + 1_000_000, Promise.resolve(1)), 1);
  });
});

t.test('the clock of a node', async (t) => {
  type Node = Parameters<RedisClock['measure']>[0];

  t.test('is that of the sample with the shortest round trip', async (t) => {
    let now = 0;
    const roundTrips = [50, 40, 2, 300, 60];
    // Redis answers at once, and its answer is late on the way back.
    const node = {
      async time() {
        const ms = 1_000_000 + now;
        now += roundTrips.shift() ?? 0;
        return [Math.floor(ms / 1_000), (ms % 1_000) * 1_000];
      },
    } as unknown as Node;
    const clock = new RedisClock(() => now);
    await clock.measure(node);
    t.same(roundTrips, []);
    t.equal(clock.at(now), 1_000_000 + now - 1, 'wrong by half of that round trip');
  });

  t.test('is that of a real Redis', async (t) => {
    const redis = await startTestRedis(t);
    const client = connectTo(t, redis.url);
    const clock = new RedisClock();
    const began = Date.now();
    await clock.measure(client);
    // Both clocks are this machine's.
    const took = Date.now() - began + 1;
    const at = clock.at(performance.now());
    t.ok(at >= began - took && at <= Date.now() + took, `${at}`);
  });

  t.test('is measured once for callers of one moment, and anew for later ones', async (t) => {
    let calls = 0;
    const clock = new RedisClock();
    const node = { time: async () => [++calls, 0] } as unknown as Node;
    await Promise.all([clock.measure(node), clock.measure(node)]);
    t.equal(calls, 5);
    await clock.measure(node);
    t.equal(calls, 10);
    const failing = { time: () => Promise.reject(new Error('away')) } as unknown as Node;
    await t.rejects(clock.measure(failing), { message: 'away' });
    await clock.measure(node);
    t.equal(calls, 15, 'a failed one is not kept');
  });
});

t.test('a connection on which nothing comes', async (t) => {
  /** A connection with commands under way, looked at as time passes. */
  const watched = () => {
    let now = 0;
    const commands: object[] = [];
    const stream = { bytesRead: 0, error: undefined as Error | undefined };
    const redis = {
      stream: Object.assign(stream, {
        destroy(error: Error) {
          stream.error ??= error;
        },
      }),
      commandQueue: {
        get length() {
          return commands.length;
        },
        peekFront: () => commands[0] && { command: commands[0] },
        peekBack: () => commands.at(-1) && { command: commands.at(-1) },
      },
    } as unknown as Redis;
    const look = silenceOf(1_000, () => now);
    return {
      send: () => commands.push({}),
      receive: () => {
        commands.shift();
        stream.bytesRead++;
      },
      async pass(ms: number) {
        now += ms;
        look(redis);
        await nextTurn();
        await nextTurn();
        return stream.error ? 'cut' : isSilent(redis) ? 'silent' : 'heard';
      },
    };
  };

  t.test('is kept while a command on it may still be answered, and is heard again', async (t) => {
    const { send, receive, pass } = watched();
    send();
    t.equal(await pass(0), 'heard');
    send();
    t.equal(await pass(800), 'heard');
    t.equal(await pass(300), 'silent', 'for longer than the time-out');
    t.equal(await pass(600), 'silent', 'the second command has time');
    receive();
    t.equal(await pass(1), 'heard');
  });

  t.test('is cut once its youngest command is too old, or after twice the time-out', async (t) => {
    const { send, pass } = watched();
    send();
    await pass(0);
    t.equal(await pass(1_000), 'cut');
    const busy = watched();
    busy.send();
    await busy.pass(0);
    for (let passed = 500; passed < 2_000; passed += 500) {
      busy.send();
      t.not(await busy.pass(500), 'cut', `${passed} ms`);
    }
    busy.send();
    t.equal(await busy.pass(500), 'cut');
  });

  t.test('is left alone while it is idle', async (t) => {
    const { pass } = watched();
    for (let i = 0; i < 5; i++) t.equal(await pass(1_000), 'heard');
  });

  t.test('is made anew, with a Redis that is frozen', { timeout: 60_000 }, async (t) => {
    const redis = await startTestRedis(t);
    const pid = redis.pids[0] as number;
    t.teardown(() => process.kill(pid, 'SIGCONT'));
    const errors: Error[] = [];
    const options = { urls: [redis.url], name: 'test', timeoutMs: 500 };
    const client = (await connectRedis(options, (error) => errors.push(error))) as Redis;
    t.teardown(() => client.disconnect());
    process.kill(pid, 'SIGSTOP');
    const error = await client.ping().catch((error: Error) => error);
    t.ok(error instanceof Error && isPassing(error), String(error));
    t.ok(errors.some((one) => one instanceof SilentConnectionError));
    process.kill(pid, 'SIGCONT');
    await until('it answers', () =>
      client.ping().then(
        (answer) => answer === 'PONG',
        () => false,
      ),
    );
  });
});

t.test('a change', async (t) => {
  const redis = await startTestRedis(t);
  const proxy = await startProxy(t, redis.url);
  const direct = connectTo(t, redis.url);
  const open = async (url: string, options: Partial<StoreOptions> = {}) => {
    const store = await Store.open({ ...OPTIONS, urls: [url], ...options });
    t.teardown(() => store.close());
    return store;
  };
  const store = await open(proxy.url);
  const put = (key: string) => store.change(PUT, [`s:{x}:${key}`], ['v']);

  t.test('that Redis gets after it was answered 503 does nothing', async (t) => {
    t.equal(await put('warm'), 1);
    const hasty = await open(proxy.url, { timeoutMs: 1_000 });
    proxy.freeze();
    await t.rejects(hasty.change(PUT, ['s:{x}:late'], ['v']), { code: 'unavailable' });
    proxy.thaw();
    await sleep(200); // all of it has passed the proxy
    t.equal(await put('after'), 1);
    t.equal(await direct.exists('s:{x}:late'), 0);
  });

  t.test('whose reply is lost is asked for again', async (t) => {
    const cuts = proxy.cuts;
    proxy.cutReplyAfter(0, new RegExp(PUT.sha));
    t.equal(await put('lost'), 1);
    t.equal(proxy.cuts, cuts + 1);
  });

  t.test('that no replica has is 503, although the master has it', async (t) => {
    const asking = await open(redis.url, { replicas: 1, timeoutMs: 1_000 });
    await t.rejects(asking.change(PUT, ['s:{x}:alone'], ['v']), { code: 'unavailable' });
    t.equal(await direct.exists('s:{x}:alone'), 1);
    const reading = await open(redis.url, { replicas: 1 });
    t.equal(await reading.run(GET, ['s:{x}:alone'], []), 'v', 'reads do not wait');
  });

  t.test("that raises an error which is ours is not taken for Redis's", async (t) => {
    await direct.hset('s:{x}:hash', 'a', '1');
    await t.rejects(store.run(GET, ['s:{x}:hash'], []), { message: /^WRONGTYPE/ });
  });
});

t.test('a read whose store is closed ends at once, not when its time is over', async (t) => {
  const redis = await startTestRedis(t);
  const store = await Store.open({ ...OPTIONS, urls: [redis.url], timeoutMs: 3_600_000 });
  const read = store.call((client) => client.blpop('s:nothing', 0));
  setImmediate(() => store.close());
  await t.rejects(read, { code: 'unavailable' });
});
