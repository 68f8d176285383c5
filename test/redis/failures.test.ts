// What a failed call means: only what is known to pass, or to be refused, is `unavailable`; everything else is a bug.

import { Cluster, Redis } from 'ioredis';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { ServiceError } from '../../src/errors.js';
import { isPassing, isReadOnly, isRefused, redirectionOf, toServiceError } from '../../src/redis/failures.js';
import { SilentConnectionError } from '../../src/redis/silence.js';
import { openRedis, startTestCluster, startTestRedis } from '../harness/redis.js';

const isUnavailable = (error: Error) => {
  const seen = toServiceError(error);
  return seen instanceof ServiceError && seen.code === 'unavailable' && seen.cause === error;
};

t.test('states of Redis pass', async (t) => {
  const states = [
    'LOADING Redis is loading the dataset in memory',
    'CLUSTERDOWN Hash slot not served',
    'TRYAGAIN Multiple keys request during rehashing of slot',
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "READONLY You can't write against a read only replica.",
    'MOVED 3999 127.0.0.1:6381',
    'ASK 3999 127.0.0.1:6381',
    'UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)',
  ];
  for (const state of states) {
    t.ok(isPassing(new Error(state)), state);
    t.ok(isUnavailable(new Error(state)), state);
  }
  t.ok(
    isReadOnly(
      new Error("READONLY You can't write against a read only replica. script: x, on @user_script:1."),
    ),
  );
  t.notOk(isReadOnly(new Error('LOADING x')));
});

t.test('refusals do not pass by themselves, and are 503', async (t) => {
  const refusals = [
    "OOM command not allowed when used memory > 'maxmemory'. script: x, on @user_script:80.",
    'MISCONF Redis is configured to save RDB snapshots',
    'NOREPLICAS Not enough good replicas to write.',
    'BUSY Redis is busy running a script.',
    'NOAUTH Authentication required.',
    "NOPERM User x has no permissions to run the 'evalsha' command",
    'WRONGPASS invalid username-password pair or user is disabled.',
    'ERR max number of clients reached',
  ];
  for (const refusal of refusals) {
    t.notOk(isPassing(new Error(refusal)), refusal);
    t.ok(isRefused(new Error(refusal)), refusal);
    t.ok(isUnavailable(new Error(refusal)), refusal);
  }
});

t.test('all else is ours', async (t) => {
  const bugs = [
    new TypeError("Cannot read properties of undefined (reading 'x')"),
    new RangeError('Invalid array length'),
    new Error('WRONGTYPE Operation against a key holding the wrong kind of value'),
    new Error("CROSSSLOT Keys in request don't hash to the same slot"),
    new Error('ERR Error running script: attempt to index a nil value'),
    new Error('NOSCRIPT No matching script. Please use EVAL.'),
    new Error('something'),
    new Error('MOVED'),
  ];
  for (const bug of bugs) {
    t.notOk(isPassing(bug), bug.message);
    t.equal(toServiceError(bug), bug, bug.message);
  }
  const known = new ServiceError('overloaded');
  t.equal(toServiceError(known), known);
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
