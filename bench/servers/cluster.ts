// A Redis Cluster for the benchmark: masters that share the slots, each set up as the one Redis is (redis.ts).

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { bareEnvironment, type Child, startChild } from '../../src/extras/embedded/child.js';
import { type EmbeddedRedis, findRedis, untilLoaded } from '../../src/extras/embedded/redis.js';
import { freePort } from './ports.js';

const SLOTS = 16_384;

export interface Member {
  readonly id: string;
  readonly port: number;
  readonly bus: number;
}

/** Resolves when each knows that all slots are served. */
export async function startMasters(dir: string, count: number): Promise<EmbeddedRedis[]> {
  const members = await newMembers(count);
  const masters: EmbeddedRedis[] = [];
  try {
    for (const member of members) masters.push(await startMaster(join(dir, member.id), member, members));
    for (const master of masters) await untilJoined(master);
    return masters;
  } catch (error) {
    for (const master of masters) await master.stop();
    throw error;
  }
}

async function startMaster(dir: string, self: Member, members: readonly Member[]): Promise<EmbeddedRedis> {
  const conf = nodesConf(self, members);
  const child = await startMember(dir, self, { conf, env: bareEnvironment(), restart: false });
  return { url: `redis://127.0.0.1:${self.port}`, pid: child.pid, stop: child.stop };
}

export function newMembers(count: number): Promise<Member[]> {
  const newMember = async () => ({
    id: randomBytes(20).toString('hex'),
    port: await freePort(),
    bus: await freePort(),
  });
  return Promise.all(Array.from({ length: count }, newMember));
}

interface MemberSpec {
  /** What the node begins with in an empty folder; see `nodesConf`. */
  readonly conf: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly restart?: boolean;
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Instead of a connection that is answered without TLS. */
  readonly ready?: (() => Promise<void>) | undefined;
}

/** A node, once its data are loaded. */
export async function startMember(dir: string, self: Member, spec: MemberSpec): Promise<Child<void>> {
  const { conf, env, restart = true, settings, ready } = spec;
  const { port } = self;
  await mkdir(dir, { recursive: true });
  const nodes = join(dir, 'nodes.conf');
  if (!existsSync(nodes)) await writeFile(nodes, conf);
  const args = memberArgs(self, settings);
  return await startChild({
    name: `Redis on ${port}`,
    command: () => ({ file: findRedis(), args, cwd: dir, ...(env && { env }) }),
    ready: (_child, ended) => ready?.() ?? untilLoaded({ port, host: '127.0.0.1' }, ended),
    output: 'tail',
    restart,
  });
}

/** Arguments of a node's program, in its folder. @param more settings */
function memberArgs({ port, bus }: Member, more: Readonly<Record<string, string>> = {}): string[] {
  return Object.entries({
    dir: '.',
    port: String(port),
    bind: '127.0.0.1',
    'cluster-enabled': 'yes',
    'cluster-port': String(bus), // the default, port + 10,000, may be taken or past the last port
    appendonly: 'yes',
    save: '',
    'maxmemory-policy': 'noeviction',
    'hash-max-listpack-entries': '512',
    loglevel: 'warning',
    ...more,
  }).flatMap(([name, value]) => [`--${name}`, value]);
}

/**
 * What makes a node begin as if it had met the others: a handshake of CLUSTER MEET takes seconds on a busy machine, and
 * may be lost.
 * @param members the masters, and then perhaps as many replicas, in the same order
 * @param isRagged whether the masters have single slots by turns, and not each a part in a row
 */
export function nodesConf(
  self: Member,
  members: readonly Member[],
  { isRagged = false, masters = members.length } = {},
): string {
  const first = (n: number) => Math.ceil((n * SLOTS) / masters);
  const slotsOf = (n: number) => (isRagged ? raggedSlots(n, masters) : `${first(n)}-${first(n + 1) - 1}`);
  const lines = members.map((member, n) => {
    const { id, port, bus } = member;
    const node = `${id} 127.0.0.1:${port}@${bus} ${member === self ? 'myself,' : ''}`;
    const master = members[n - masters];
    if (master !== undefined) return `${node}slave ${master.id} 0 0 ${n - masters + 1} connected\n`;
    return `${node}master - 0 0 ${n + 1} connected ${slotsOf(n)}\n`;
  });
  return `${lines.join('')}vars currentEpoch ${masters} lastVoteEpoch 0\n`;
}

async function untilJoined(master: EmbeddedRedis): Promise<void> {
  const client = new Redis(master.url);
  while (!String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) await sleep(20);
  client.disconnect();
}

function raggedSlots(n: number, members: number): string {
  return Array.from({ length: SLOTS }, (_, slot) => slot)
    .filter((slot) => slot % members === n)
    .join(' ');
}
