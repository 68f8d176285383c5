// What a failed call means: only what is known to pass, or to be refused, is `unavailable`; everything else is a bug.

import { Cluster, Redis } from 'ioredis';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { ServiceError } from '../../src/errors.js';
import { isPassing, isReadOnly, isRefused, redirectionOf, toServiceError } from '../../src/redis/failures.js';
import { SilentConnectionError } from '../../src/redis/silence.js';
import { openRedis, startTestCluster, startTestRedis } from '../harness/redis.js';

const PASSING = [
  'LOADING Redis is loading the dataset in memory',
  'CLUSTERDOWN Hash slot not served',
  'TRYAGAIN Multiple keys request during rehashing of slot',
  "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
  "READONLY You can't write against a read only replica. script: x, on @user_script:1.",
  'MOVED 3999 127.0.0.1:6381',
  'ASK 3999 127.0.0.1:6381',
  'UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)',
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

t.test('states of Redis pass, refusals do not by themselves, and both are 503', async (t) => {
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

t.test('all else is ours', async (t) => {
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

t.test('where a slot is', async (t) => {
  t.same(redirectionOf(new Error('MOVED 3999 10.0.0.1:6381')), {
    kind: 'MOVED',
    slot: 3_999,
    address: '10.0.0.1:6381',
  });
  t.match(redirectionOf(new Error('ASK 1 ::1:6381')), { kind: 'ASK', address: '::1:6381' });
  t.equal(redirectionOf(new Error('MOVED __proto__ x:1')), undefined);
  t.equal(redirectionOf(new Error('TRYAGAIN x')), undefined);
});

// What ioredis says where a connection is not there: its texts may change with its version.
t.test('connections that ioredis does not have', async (t) => {
  const options = { enableOfflineQueue: false, maxRetriesPerRequest: 0, lazyConnect: true } as const;
  const errorOf = async (call: Promise<unknown>) => {
    const error = await call.catch((error: Error) => error);
    t.ok(error instanceof Error);
    t.ok(isPassing(error as Error), String(error));
  };
  t.ok(isPassing(new SilentConnectionError(500)));

  t.test('one Redis', async (t) => {
    const redis = await startTestRedis(t);
    const client = openRedis(redis.url);
    await client.ping();
    const pending = client.blpop('nothing', 0);
    client.disconnect();
    await errorOf(pending);
    await errorOf(client.ping());

    const retrying = new Redis({ ...options, path: `${redis.dir}/redis.sock`, retryStrategy: () => 60_000 });
    retrying.on('error', () => {});
    await retrying.connect();
    const lost = retrying.blpop('nothing', 0);
    process.kill(redis.pids[0] as number, 'SIGKILL');
    await errorOf(lost);
    await errorOf(retrying.ping());
    retrying.disconnect();
  });

  t.test('no listener at the port', async () => {
    const client = new Redis({ ...options, port: await freePort(), retryStrategy: null as never });
    const told = new Promise<Error>((resolve) => client.once('error', resolve));
    await errorOf(client.connect());
    await errorOf(told.then((error) => Promise.reject(error)));
  });

  t.test('a cluster', async (t) => {
    const cluster = await startTestCluster(t);
    const nodes = cluster.urls.map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }));
    const client = new Cluster(nodes, {
      ...{
        enableOfflineQueue: false,
        retryDelayOnFailover: 0,
        retryDelayOnClusterDown: 0,
        maxRedirections: 2,
      },
      clusterRetryStrategy: () => null,
      redisOptions: { ...options },
    });
    client.on('error', () => {});
    await new Promise((resolve) => client.once('ready', resolve));
    const pending = client.blpop('nothing', 0);
    for (const pid of cluster.pids) process.kill(pid as number, 'SIGKILL');
    await errorOf(pending);
    await errorOf(client.get('x'));
    client.disconnect();
    await errorOf(client.get('x'));
  });
});
