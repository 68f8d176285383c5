// Moves slots of a test cluster from one master to another, step by step or as a whole, as `redis-cli` does.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/** The time in which a node's messages about its slots reach the other nodes. */
const ON_THE_WAY_MS = 50;
const MIGRATE_MS = 20_000;

export interface Slots {
  start(slot: number, from: number, to: number): Promise<void>;
  moveKeys(slot: number, from: number, to: number): Promise<void>;
  end(slot: number, to: number): Promise<void>;
  /**
   * Waits until the nodes agree. A node that takes a slot before it knows the cluster's epoch loses it again,
   * with its keys; Redis does so without a test, too.
   */
  settled(): Promise<void>;
  move(slot: number, from: number, to: number): Promise<void>;
}

/**
 * @param nodes connections to each master, in the order of their numbers @param urls the addresses of the
 * same masters
 */
export async function slotsOf(nodes: readonly Redis[], urls: readonly string[]): Promise<Slots> {
  const ids = await Promise.all(nodes.map(async (node) => String(await node.call('CLUSTER', 'MYID'))));
  const set = (node: number, slot: number, ...words: string[]) =>
    (nodes[node] as Redis).call('CLUSTER', 'SETSLOT', slot, ...words);
  const slots: Slots = {
    async start(slot, from, to) {
      await set(to, slot, 'IMPORTING', ids[from] as string);
      await set(from, slot, 'MIGRATING', ids[to] as string);
    },
    async moveKeys(slot, from, to) {
      const keys = (await nodes[from]?.call('CLUSTER', 'GETKEYSINSLOT', slot, 1_000)) as string[];
      const { port } = new URL(urls[to] as string);
      if (keys.length > 0)
        await nodes[from]?.call('MIGRATE', '127.0.0.1', port, '', 0, MIGRATE_MS, 'KEYS', ...keys);
    },
    async end(slot, to) {
      for (const node of [to, ...nodes.keys()]) await set(node, slot, 'NODE', ids[to] as string);
    },
    async settled() {
      const epochs = async () => {
        const infos = await Promise.all(nodes.map((node) => node.call('CLUSTER', 'INFO')));
        return new Set(infos.map((info) => /cluster_current_epoch:(\d+)/.exec(String(info))?.[1]));
      };
      while ((await epochs()).size > 1) await sleep(5);
      await sleep(ON_THE_WAY_MS);
    },
    async move(slot, from, to) {
      await slots.start(slot, from, to);
      await slots.moveKeys(slot, from, to);
      await slots.end(slot, to);
      await slots.settled();
    },
  };
  return slots;
}
