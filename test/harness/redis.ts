// Redis for tests: one server, or a cluster of masters, each in a temp folder; and plain connections. All of
// them end with the test.

import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Test } from 'tap';
import { newMembers, nodesConf, startMember } from '../../bench/servers/cluster.js';
import { type RedisSpec, startRedis } from '../../src/extras/embedded/redis.js';
import type { TestCertificate } from './certificates.js';

export interface Urls {
  /** As REDIS_URL, with one entry per node. */
  readonly urls: readonly string[];
}

export interface TestRedis extends Urls {
  /** Pids of the servers, for kill -9 and SIGSTOP; undefined for a server that is down. */
  readonly pids: readonly (number | undefined)[];
  stop(): Promise<void>;
}

/** A test, or a process without one, at whose end things are closed. */
export type Scope = Pick<Test, 'teardown'>;

/** One Redis on a unix socket, with the settings of `wishmeter start`. The caller's `dir` is not deleted. */
export async function startTestRedis(t: Scope, spec: Partial<RedisSpec> = {}) {
  const dir = spec.dir ?? (await mkdtemp(join(tmpdir(), 'wm-redis-')));
  const redis = await startRedis({ ...spec, dir });
  const stop = async () => {
    await redis.stop();
    if (spec.dir === undefined) await rm(dir, { recursive: true, force: true });
  };
  t.teardown(stop);
  return {
    url: redis.url,
    urls: [redis.url],
    dir,
    get pids() {
      return [redis.pid];
    },
    stop,
  };
}

/** A Redis that replicates `master` and has acknowledged a write. `master` must listen on a port. */
export async function startTestReplica(
  t: Scope,
  master: { readonly url: string },
  [user, password]: readonly [user: string, password: string] = ['default', new URL(master.url).password],
) {
  const replica = await startTestRedis(t);
  const [toMaster, toReplica] = [openRedis(master.url), openRedis(replica.url)];
  const { port } = new URL(master.url);
  await toMaster.config('SET', 'repl-diskless-sync-delay', '0');
  await toReplica.config('SET', 'appendonly', 'no'); // a replica ignores SIGTERM while it writes its first AOF
  await toReplica.config('SET', 'masteruser', user, 'masterauth', password);
  await toReplica.replicaof('127.0.0.1', Number(port));
  await toMaster.set('before', 'replica');
  await toMaster.wait(1, 0);
  for (const client of [toMaster, toReplica]) client.disconnect();
  return replica;
}

export interface ClusterSpec {
  readonly masters?: number;
  /** Whether slots go to the masters in turn, one by one, and not in thirds. */
  readonly isRagged?: boolean;
  /** Only TLS, with this certificate; nodes tell clients the name `localhost` instead of addresses. */
  readonly tls?: TestCertificate;
  readonly endpoint?: 'hostname' | 'ip';
}

export async function startTestCluster(
  t: Scope,
  { masters = 3, isRagged = false, tls, endpoint = 'hostname' }: ClusterSpec = {},
): Promise<TestRedis> {
  const dir = await mkdtemp(join(tmpdir(), 'wm-cluster-'));
  const members = await newMembers(masters);
  const starts = await Promise.allSettled(
    members.map(async (member, i) => {
      const conf = nodesConf(member, members, { isRagged });
      const spec = {
        conf: tls ? conf.replace(/@\d+/g, '$&,localhost') : conf,
        settings: { 'cluster-node-timeout': '2000', ...(tls && tlsArgs(member.port, tls, endpoint)) },
        ready: tls && (() => untilTlsAnswers(member.port, tls.authority)),
      };
      return { port: member.port, child: await startMember(join(dir, String(i)), member, spec) };
    }),
  );
  const nodes = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
  const failed = starts.find((start) => start.status === 'rejected');
  if (failed) {
    await Promise.all(nodes.map(({ child }) => child.stop()));
    throw failed.reason;
  }
  const clients = nodes.map(({ port }) => new Redis({ port, ...hostOf(tls) }));
  const isOk = async (client: Redis) =>
    String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok');
  while (!(await Promise.all(clients.map(isOk))).every(Boolean)) await sleep(20);
  for (const client of clients) client.disconnect();
  const stop = async () => {
    await Promise.all(nodes.map(({ child }) => child.stop()));
    await rm(dir, { recursive: true, force: true });
  };
  t.teardown(stop);
  return {
    urls: nodes.map(({ port }) => `${tls ? 'rediss://localhost' : 'redis://127.0.0.1'}:${port}`),
    get pids() {
      return nodes.map(({ child }) => child.pid);
    },
    stop,
  };
}

const hostOf = (tls: Pick<TestCertificate, 'authority'> | undefined) =>
  tls ? { host: 'localhost', tls: { ca: readFileSync(tls.authority) } } : { host: '127.0.0.1' };

const tlsArgs = (port: number, { authority, certificate, key }: TestCertificate, endpoint: string) => ({
  port: '0',
  'tls-port': String(port),
  'tls-cluster': 'yes',
  'tls-auth-clients': 'no',
  'tls-ca-cert-file': authority,
  'tls-cert-file': certificate,
  'tls-key-file': key,
  'cluster-announce-hostname': 'localhost',
  'cluster-preferred-endpoint-type': endpoint,
});

async function untilTlsAnswers(port: number, authority: string): Promise<void> {
  const client = new Redis({ port, ...hostOf({ authority }) });
  client.on('error', () => {}); // the server is not up yet
  await client.ping().finally(() => client.disconnect());
}

/** A plain connection, which the caller ends. */
export function openRedis(url: string): Redis {
  const { hostname, port, password, searchParams } = new URL(url);
  const path = searchParams.get('path');
  return path === null ? new Redis({ host: hostname, port: Number(port), password }) : new Redis({ path });
}

export function connectTo(t: Scope, url: string): Redis {
  const client = openRedis(url);
  t.teardown(() => client.disconnect());
  return client;
}

export function connectToEach(t: Scope, urls: readonly string[]): Redis[] {
  return urls.map((url) => connectTo(t, url));
}

export async function eachKey<T>(
  { urls }: Urls,
  pattern: string,
  act: (client: Redis, key: string) => Promise<T>,
): Promise<T[]> {
  const parts = urls.map(async (url) => {
    const client = openRedis(url);
    const keys = await client.keys(pattern);
    return Promise.all(keys.map((key) => act(client, key))).finally(() => client.disconnect());
  });
  return (await Promise.all(parts)).flat();
}
