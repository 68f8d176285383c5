// A Redis Cluster for the benchmark: masters that share the slots, each set up as the one Redis is (redis.ts).

import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { bareEnvironment, startChild } from '../../src/extras/embedded/child.js';
import { type EmbeddedRedis, findRedis, untilLoaded } from '../../src/extras/embedded/redis.js';
import { freePort } from './ports.js';
import { connectTo } from './redis.js';

const SLOTS = 16_384;

export interface Member {
  readonly id: string;
  readonly port: number;
  readonly bus: number;
}

/** Resolves when each knows that all slots are served. */
export async function startMasters(dir: string, count: number): Promise<EmbeddedRedis[]> {
  const members: Member[] = [];
  for (let n = 0; n < count; n++)
    members.push({ id: randomBytes(20).toString('hex'), port: await freePort(), bus: await freePort() });
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
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, 'nodes.conf'), nodesConf(self, members));
  const { port } = self;
  const args = memberArgs(self);
  const child = await startChild({
    name: `Redis on ${port}`,
    command: () => ({ file: findRedis(), args, cwd: dir, env: bareEnvironment() }),
    ready: (_child, ended) => untilLoaded({ port, host: '127.0.0.1' }, ended),
    output: 'tail',
    restart: false,
  });
  return { url: `redis://127.0.0.1:${port}`, pid: child.pid, stop: child.stop };
}

/** Arguments of a node's program, in its folder. @param more settings */
export function memberArgs({ port, bus }: Member, more: Readonly<Record<string, string>> = {}): string[] {
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
 * @param isRagged whether the members have single slots by turns, and not each a third in a row
 */
export function nodesConf(self: Member, members: readonly Member[], isRagged = false): string {
  const first = (n: number) => Math.ceil((n * SLOTS) / members.length);
  const slotsOf = (n: number) =>
    isRagged ? raggedSlots(n, members.length) : `${first(n)}-${first(n + 1) - 1}`;
  const lines = members.map((member, n) => {
    const flags = member === self ? 'myself,master' : 'master';
    return `${member.id} 127.0.0.1:${member.port}@${member.bus} ${flags} - 0 0 ${n + 1} connected ${slotsOf(n)}\n`;
  });
  return `${lines.join('')}vars currentEpoch ${members.length} lastVoteEpoch 0\n`;
}

async function untilJoined(master: EmbeddedRedis): Promise<void> {
  const client = connectTo(master);
  while (!String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) await sleep(20);
  client.disconnect();
}

function raggedSlots(n: number, members: number): string {
  return Array.from({ length: SLOTS }, (_, slot) => slot)
    .filter((slot) => slot % members === n)
    .join(' ');
}
