// Single calls: what a failure means, how long Redis is waited for, and that no change is applied after it was answered 503.

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInThisContext } from 'node:vm';
import { Cluster, type Redis } from 'ioredis';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { ServiceError } from '../../src/errors.js';
import { before } from '../../src/redis/deadline.js';
import { isPassing, isReadOnly, isRefused, redirectionOf, toServiceError } from '../../src/redis/failures.js';
import { type KeyedOperation, RequestStore } from '../../src/redis/requests.js';
import { loadScript } from '../../src/redis/scripts.js';
import { isSilent, SilentConnectionError, silenceOf } from '../../src/redis/silence.js';
import { Store, type StoreOptions } from '../../src/redis/store.js';
import { writeKey } from '../../src/redis/write.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, startTestCluster, startTestRedis, startTestReplica } from '../harness/redis.js';
import { openStore } from '../harness/store.js';
import { until } from '../harness/until.js';

const WRITE = loadScript('redis/writeKey');
const GET = { name: 'get', source: "return redis.call('GET', KEYS[1])", sha: '0'.repeat(40) };
const OPTIONS = { name: 'test', timeoutMs: 30_000, keyPrefix: 's', buckets: 16, onError: () => {} };

t.test('String.prototype keeps fast properties, although ioredis has a subclass of String', async (t) => {
  setFlagsFromString('--allow-natives-syntax');
  t.equal(runInThisContext('%HasFastProperties(String.prototype)'), true);
});

t.test('a deadline', async (t) => {
  t.test('a reply that is in the socket beats its deadline, however late the timer is noticed', async (t) => {
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
});
t.test('a silent connection', async (t) => {
  /** A connection with pending commands, in a time that the test sets. */
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
    const check = silenceOf(1_000, () => now);
    return {
      send: () => commands.push({}),
      receive: () => {
        commands.shift();
        stream.bytesRead++;
      },
      async pass(ms: number) {
        now += ms;
        check(redis);
        await nextTurn();
        await nextTurn();
        return stream.error ? 'cut' : isSilent(redis) ? 'silent' : 'heard';
      },
    };
  };

  t.test(
    'a silent connection is kept while its commands may still be answered, and recovers with a reply',
    async (t) => {
      const { send, receive, pass } = watched();
      send();
      t.equal(await pass(0), 'heard');
      send();
      t.equal(await pass(800), 'heard');
      t.equal(await pass(300), 'silent', 'for longer than the time-out');
      t.equal(await pass(600), 'silent', 'the second command has time');
      receive();
      t.equal(await pass(1), 'heard');
    },
  );

  t.test(
    'a silent connection is cut once its youngest command is too old, or after twice the time-out',
    async (t) => {
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
    },
  );
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
  const put = (key: string) => writeKey(store, `s:{x}:${key}`, ['SET', 'v']);

  t.test('a change that reaches Redis after it was answered 503 does nothing', async (t) => {
    t.equal(await put('warm'), 'OK');
    const hasty = await open(proxy.url, { timeoutMs: 1_000 });
    proxy.freeze();
    await t.rejects(writeKey(hasty, 's:{x}:late', ['SET', 'v']), { code: 'unavailable' });
    proxy.thaw();
    await sleep(200); // all of it has passed the proxy
    t.equal(await put('after'), 'OK');
    t.equal(await direct.exists('s:{x}:late'), 0);
  });

  t.test('a change whose reply is lost is sent again', async (t) => {
    const cuts = proxy.cuts;
    proxy.cutReplyAfter(0, new RegExp(WRITE.sha));
    t.equal(await put('lost'), 'OK');
    t.equal(proxy.cuts, cuts + 1);
  });

  t.test('a change with too few replicas is refused before it is done, and reads are answered', async (t) => {
    const refused = { code: 'unavailable', cause: { message: /^NOREPLICAS / } };
    const asking = await open(redis.url, { replicas: 1, timeoutMs: 1_000 });
    await t.rejects(writeKey(asking, 's:{x}:alone', ['SET', 'v']), refused);
    t.equal(await asking.run(GET, ['s:{x}:alone'], []), null);

    const master = await startTestRedis(t, { port: await freePort() });
    const replica = await startTestReplica(t, master);
    const one = await open(master.url, { replicas: 1 });
    t.equal(await writeKey(one, 's:{x}:one', ['SET', 'v']), 'OK');
    const two = await open(master.url, { replicas: 2, timeoutMs: 1_000 });
    await t.rejects(writeKey(two, 's:{x}:two', ['SET', 'v']), refused);
    t.equal(await one.run(GET, ['s:{x}:two'], []), null);
    t.match(two.masters, [{ state: 'too_few_replicas', reason: /too few replicas/ }]);
    await replica.stop();
    await until('its loss is known', () => one.masters[0]?.state === 'too_few_replicas');
    await t.rejects(writeKey(one, 's:{x}:late', ['SET', 'v']), refused);
    t.equal(await one.run(GET, ['s:{x}:late'], []), null);
    await startTestReplica(t, master);
    await until('the next one is known', () => one.masters[0]?.state === 'up');
    t.equal(await writeKey(one, 's:{x}:late', ['SET', 'v']), 'OK');
  });

  t.test('an error that our own command causes is not reported as an outage of Redis', async (t) => {
    await direct.hset('s:{x}:hash', 'a', '1');
    await t.rejects(store.run(GET, ['s:{x}:hash'], []), { message: /^WRONGTYPE/ });
  });
});

t.test('two tries of a request both get the answer that was recorded first', async (t) => {
  const store = await openStore(t, await startTestRedis(t));
  const requests = new RequestStore(store, 20);
  for (const how of ['answered', 'refused'] as const) {
    const key = { scope: 's', key: how, fingerprint: '' };
    let endSlow = () => {};
    const slow = new Promise<string>((resolve, reject) => {
      endSlow = () =>
        how === 'answered' ? resolve('of the first') : reject(new ServiceError('too_many_items'));
    });
    const keys = await store.client.dbsize();
    const first = requests.run(key, '', () => slow);
    await until('it is in flight', async () => (await store.client.dbsize()) > keys);
    t.equal(await requests.run(key, '', async () => 'of the second'), 'of the second');
    endSlow();
    t.equal(await first, 'of the second', `the first is ${how}`);
    t.equal(await requests.run(key, '', async () => 'of the third'), 'of the second');
  }
});

t.test('an operation that two tries begin at different profiles is done at one of them', async (t) => {
  const store = await openStore(t, await startTestRedis(t));
  const requests = new RequestStore(store, 0);
  const key = { scope: 's', key: 'k', fingerprint: '' };
  const doneAt: string[] = [];
  const doAt = (location: string, operation: KeyedOperation) =>
    operation.doAt(location, async (recordId, done) => {
      if (done !== undefined) return done.record;
      doneAt.push(location);
      await writeKey(store, store.keys.operation(location, recordId), ['SET', location]);
      return location;
    });
  await requests.run(key, '1.sA', async (first) => {
    await requests.run(key, '1.sA', (second) => doAt('1.sB', second));
    return doAt('1.sC', first);
  });
  t.same(doneAt, ['1.sB']);
});
t.test('a read ends at once if its store is closed', async (t) => {
  const redis = await startTestRedis(t);
  const store = await Store.open({ ...OPTIONS, urls: [redis.url], timeoutMs: 3_600_000 });
  const read = store.call((client) => client.blpop('s:nothing', 0));
  setImmediate(() => store.close());
  await t.rejects(read, { code: 'unavailable' });
});

const PASSING = [
  'LOADING Redis is loading the dataset in memory',
  'CLUSTERDOWN Hash slot not served',
  'TRYAGAIN Multiple keys request during rehashing of slot',
  "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
  "READONLY You can't write against a read only replica. script: x, on @user_script:1.",
  'MOVED 3999 127.0.0.1:6381',
  'ASK 3999 127.0.0.1:6381',
  'UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)',
  'timeout', // of ioredis: CLUSTER SLOTS was not answered in time
];
const REFUSED = [
  "OOM command not allowed when used memory > 'maxmemory'. script: x, on @user_script:80.",
  'MISCONF Redis is configured to save RDB snapshots',
  'NOREPLICAS Not enough good replicas to write.',
  'BUSY Redis is busy running a script.',
  'NOAUTH Authentication required.',
  "NOPERM User x has no permissions to run the 'evalsha' command",
  'WRONGPASS invalid username-password pair or user is disabled.',
  'ERR max number of clients reached',
];
t.test('states of Redis that pass and its refusals are distinguished, and both are 503', async (t) => {
  for (const [texts, passes] of [
    [PASSING, true],
    [REFUSED, false],
  ] as const) {
    for (const text of texts) {
      const error = new Error(text);
      t.equal(isPassing(error), passes, text);
      t.equal(isRefused(error), !passes, text);
      const code = text.startsWith('OOM ') ? 'overloaded' : 'unavailable';
      t.match(toServiceError(error), { name: 'ServiceError', code, cause: error }, text);
      t.equal(isReadOnly(error), text.startsWith('READONLY'), text);
    }
  }
});
t.test('a fault of a socket passes, but a lack of rights does not', async (t) => {
  const ofCode = (code: string) => Object.assign(new Error('connect'), { code });
  for (const code of ['ECONNREFUSED', 'EHOSTDOWN', 'ENOTFOUND', 'ENOENT'])
    t.ok(isPassing(ofCode(code)), code);
  for (const code of ['EACCES', 'EINVAL', 'ENAMETOOLONG', 'CERT_HAS_EXPIRED'])
    t.notOk(isPassing(ofCode(code)), code);
});
t.test('any other error is reported as internal', async (t) => {
  const bugs = [
    new TypeError("Cannot read properties of undefined (reading 'x')"),
    ...[
      'WRONGTYPE Operation against a key holding the wrong kind of value',
      "CROSSSLOT Keys in request don't hash to the same slot",
      'ERR Error running script: attempt to index a nil value',
      'NOSCRIPT No matching script. Please use EVAL.',
      'something',
      'MOVED',
    ].map((text) => new Error(text)),
    new ServiceError('overloaded'),
  ];
  for (const bug of bugs) {
    t.notOk(isPassing(bug), bug.message);
    t.equal(toServiceError(bug), bug, bug.message);
  }
});
t.test('MOVED and ASK are read as redirections, and no other error is', async (t) => {
  const moved = { kind: 'MOVED', slot: 3_999, address: '10.0.0.1:6381' };
  t.same(redirectionOf(new Error('MOVED 3999 10.0.0.1:6381')), moved);
  t.match(redirectionOf(new Error('ASK 1 ::1:6381')), { kind: 'ASK', address: '::1:6381' });
  t.equal(redirectionOf(new Error('MOVED __proto__ x:1')), undefined);
  t.equal(redirectionOf(new Error('TRYAGAIN x')), undefined);
});
// The texts of ioredis's errors may change with its version.
t.test('every error of ioredis for a dead cluster counts as one that passes', async (t) => {
  t.ok(isPassing(new SilentConnectionError(500)));
  const cluster = await startTestCluster(t);
  const nodes = cluster.urls.map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }));
  const client = new Cluster(nodes, {
    enableOfflineQueue: false,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    maxRedirections: 2,
    clusterRetryStrategy: () => null,
    redisOptions: { maxRetriesPerRequest: 0, lazyConnect: true },
  });
  client.on('error', () => {});
  await new Promise((resolve) => client.once('ready', resolve));
  const fails = async (call: Promise<unknown>) => {
    const error = await call.catch((error: Error) => error);
    t.ok(error instanceof Error && isPassing(error), String(error));
  };
  const pending = client.blpop('nothing', 0);
  for (const pid of cluster.pids) process.kill(pid as number, 'SIGKILL');
  await fails(pending);
  await fails(client.get('x'));
  client.disconnect();
  await fails(client.get('x'));
});
