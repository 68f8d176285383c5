// Whether Redis may be used at this moment: which master has a slot, and whether that master is up (node.ts). Looks at
// every master every two seconds: a write, its mark, its history. A loss of data or a demotion that no connection
// tells of is noticed so, and its recovery, too.
//
// ioredis's Cluster keeps connections and the table of slots; it decides nothing of what is sent again. It asks for
// the table only when it meets MOVED, so while a slot's master is not up, the table is asked for here.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster, Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import type { RedisClient } from './client.js';
import { before } from './deadline.js';
import { inWords, refusesWrites, toServiceError } from './failures.js';
import type { Keys } from './keys.js';
import { type DeploymentLostError, Marks, slotOf } from './marks.js';
import { RedisNode } from './node.js';

export interface HealthSpec {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly salt: string;
  readonly timeoutMs: number;
  /** Told of failed looks, and once of a loss, as DeploymentLostError. */
  readonly onError: (error: Error) => void;
  /** Told how long each wait for replicas took, in milliseconds. */
  readonly onReplicated?: ((ms: number) => void) | undefined;
  /** Milliseconds between two looks at every master. */
  readonly verifyMs?: number | undefined;
}

/** `readonly`: it takes no writes, and is read. `away`: nothing that is asked of it is answered. */
export interface MasterState {
  /** `host:port`; undefined of the one server. */
  readonly address: string | undefined;
  readonly state: 'up' | 'readonly' | 'away';
  /** Why it is not up, in words, without a full stop. */
  readonly reason?: string;
}

interface Waiter {
  readonly slot: number;
  readonly deadline: number;
  readonly resolve: (node: RedisNode) => void;
  readonly reject: (error: Error) => void;
}

/** Hash tags whose slots are remembered, about 100 bytes each: more than there are buckets, since indexes and records have their own. */
const MAX_TAGS = 50_000;
const VERIFY_MS = 2_000;
const POLL_MS = 5;
const OPEN_MS = 2_000;
const REFRESH_MS = 200;
/** Our clock and a node's drift apart, and either may be set. */
const MEASURE_MS = 10_000;

export class RedisHealth {
  readonly #spec: HealthSpec;
  readonly #marks: Marks;
  readonly #cluster: Cluster | undefined;
  /** Masters of the cluster by address; those that are none any more leave. */
  readonly #nodes = new Map<string, RedisNode>();
  /** What is computed again costs a microsecond. */
  readonly #slotsOfTags = new LRUCache<string, number>({ max: MAX_TAGS });
  /** Where there is no cluster. */
  readonly #only: RedisNode | undefined;
  readonly #timers: NodeJS.Timeout[];
  #masters: ReadonlySet<string | undefined> = new Set();
  #waiters: Waiter[] = [];
  #polling: NodeJS.Timeout | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  /** @param spec with a client that is connected */
  constructor(spec: HealthSpec) {
    this.#spec = spec;
    const { client, keys, salt, verifyMs = VERIFY_MS } = spec;
    this.#marks = new Marks(client, keys, salt);
    if (client.isCluster) {
      this.#cluster = client as Cluster;
      this.#cluster.on('refresh', () => this.#readTable());
      this.#cluster.on('+node', () => this.#readNodes());
      this.#readTable();
    } else {
      this.#only = this.#newNode(undefined, () => true);
      this.#only.adopt(client as Redis);
    }
    this.#timers = [
      setInterval(() => void this.look(), verifyMs),
      setInterval(() => this.#measureAll(), MEASURE_MS),
      setInterval(() => this.#refreshIfNeeded(), REFRESH_MS),
    ];
    for (const timer of this.#timers) timer.unref();
  }

  /** Whether the deployment may be used at all; single masters may be away. */
  get isUp(): boolean {
    return this.#only === undefined ? this.#lost === undefined : this.#only.isUp;
  }

  /** Whether waiting is in vain for every slot. */
  get isCircuitOpen(): boolean {
    return this.#only === undefined ? this.#lost !== undefined : this.#only.isCircuitOpen;
  }

  /** 0 where there are no slots. */
  slotOf(key: string): number {
    return this.#only === undefined ? slotOf(key) : 0;
  }

  /** The master of a slot. */
  nodeOf(slot: number): RedisNode | undefined {
    return this.#only ?? this.#nodes.get(this.#cluster?.slots[slot]?.[0] ?? '');
  }

  /** Of the master that has a hash tag's slot, where that is up; undefined where there are no slots. */
  addressOf(tag: string): string | undefined {
    let slot = this.#slotsOfTags.get(tag);
    if (slot === undefined) {
      slot = this.slotOf(tag);
      this.#slotsOfTags.set(tag, slot);
    }
    const node = this.nodeOf(slot);
    return node?.isUp ? node.address : undefined;
  }

  /** Number of the streams at a node, as far as is known. @param address undefined where there are no slots */
  streamAt(address: string | undefined): number | undefined {
    return this.#at(address)?.stream;
  }

  /** Numbers of the streams at all nodes, as far as is known. */
  get streams(): ReadonlySet<number> {
    return new Set([...this.#nodes.values()].flatMap(({ stream }) => (stream === undefined ? [] : [stream])));
  }

  /** Milliseconds of a node's clock at a time of ours; of any node's where that one is not known. @param address as in streamAt */
  timeAt(address: string | undefined, time: number): number {
    const node = this.#at(address) ?? [...this.#nodes.values()][0];
    return node?.clock.at(time) ?? Date.now();
  }

  #at(address: string | undefined): RedisNode | undefined {
    return address === undefined ? this.#only : this.#nodes.get(address);
  }

  /** Resolves when every master was looked at, or does not answer in time. */
  async opened(): Promise<void> {
    const deadline = performance.now() + Math.min(this.#spec.timeoutMs, OPEN_MS);
    const isOpen = (node: RedisNode) => node.isUp || node.lost !== undefined;
    while (![...this.#nodes.values()].every(isOpen) && performance.now() < deadline) await sleep(POLL_MS);
  }

  /**
   * The master of a slot once it is up.
   * @throws ServiceError `unavailable` where that is not before the deadline, or in vain
   */
  async untilUp(slot: number, deadline: number): Promise<RedisNode> {
    if (this.#isClosed) throw new ServiceError('unavailable');
    if (this.nodeOf(slot) === undefined) this.#cluster?.refreshSlotsCache();
    return new Promise((resolve, reject) => {
      this.#waiters.push({ slot, deadline, resolve, reject });
      this.#polling ??= setInterval(this.#poll, POLL_MS);
    });
  }

  /** Asks for the table of slots: an operation's key was not at the node that should have it. */
  refreshSlots(): void {
    const now = performance.now();
    if (this.#cluster === undefined || now - this.#refreshedAt < POLL_MS * 4) return;
    this.#refreshedAt = now;
    this.#cluster.refreshSlotsCache();
  }

  /** Keeps what a MOVED told. */
  moved(slot: number, address: string): void {
    const cluster = this.#cluster;
    if (cluster === undefined) return;
    if (this.#nodes.has(address)) cluster.slots[slot] = [address];
    cluster.refreshSlotsCache();
  }

  /** Every master as it was found last. */
  get masters(): readonly MasterState[] {
    return [...this.#nodes.values()].map(({ address, trouble }) => {
      const error = this.#lost ?? trouble;
      if (error === undefined) return { address, state: 'up' };
      return { address, state: refusesWrites(error) ? 'readonly' : 'away', reason: inWords(error) };
    });
  }

  /** Looks at every master. One that is down is looked at when its connection is ready. */
  async look(): Promise<void> {
    const nodes = [...this.#nodes.values()].filter(({ isUp, lost }) => isUp || lost !== undefined);
    await Promise.allSettled(nodes.map((node) => node.look()));
  }

  /** See Store. @param deadline of our monotonic clock */
  async onReplica(tag: string, deadline: number): Promise<void> {
    const slot = this.slotOf(`{${tag}}`);
    const node = this.nodeOf(slot);
    const master = node?.isUp ? node : await this.untilUp(slot, deadline);
    if (!master.hasReplica) return;
    await before(deadline, master.replicated(1, deadline)).catch((error) => {
      throw toServiceError(error);
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#poll();
    clearInterval(this.#polling);
    for (const { reject } of this.#waiters) reject(new ServiceError('unavailable'));
    this.#waiters = [];
  }

  /** The deployment is lost with its `meta`, whichever node had that. */
  get #lost(): DeploymentLostError | undefined {
    return this.nodeOf(this.#marks.meta.slot)?.lost;
  }

  readonly #poll = (): void => {
    const now = performance.now();
    this.#waiters = this.#waiters.filter(({ slot, deadline, resolve, reject }) => {
      const node = this.nodeOf(slot);
      if (this.#lost === undefined && node?.isUp) resolve(node);
      else if (now >= deadline || this.#lost !== undefined || node?.isCircuitOpen)
        reject(new ServiceError('unavailable'));
      else return true;
      return false;
    });
    if (this.#waiters.length > 0) return;
    clearInterval(this.#polling);
    this.#polling = undefined;
  };

  #measureAll(): void {
    for (const node of this.#nodes.values()) {
      if (node.isUp) node.clock.measure(node.redis).catch(this.#spec.onError);
    }
  }

  #refreshIfNeeded(): void {
    const cluster = this.#cluster;
    if (cluster?.status !== 'ready') return;
    for (const node of this.#nodes.values()) {
      if (node.isUp || node.lost !== undefined) continue;
      cluster.refreshSlotsCache();
      return;
    }
  }

  /** Takes over what CLUSTER SLOTS said. */
  #readTable(): void {
    const cluster = this.#cluster as Cluster;
    const owners = cluster.slots.map((addresses) => addresses?.[0]);
    this.#masters = new Set(owners);
    this.#readNodes();
    for (const [address, node] of this.#nodes) {
      if (!this.#masters.has(address)) this.#nodes.delete(address);
      // Its stream has moved with the slot: another one is found now, and not in two seconds.
      else if (node.isUp && !node.hasMark) node.look().catch(this.#spec.onError);
    }
  }

  #readNodes(): void {
    const cluster = this.#cluster as Cluster;
    for (const redis of cluster.nodes('master')) {
      const address = `${redis.options.host}:${redis.options.port}`;
      // Nodes to start from may have other names, and no slots under them.
      if (!this.#masters.has(address)) continue;
      const has = (slot: number) => cluster.slots[slot]?.[0] === address;
      (this.#nodes.get(address) ?? this.#newNode(address, has)).adopt(redis);
    }
  }

  #newNode(address: string | undefined, has: (slot: number) => boolean): RedisNode {
    const { timeoutMs, onError, onReplicated } = this.#spec;
    const node = new RedisNode({
      address,
      marks: this.#marks,
      timeoutMs,
      has,
      onMoved: (slot, to) => this.moved(slot, to),
      onError,
      onReplicated,
    });
    this.#nodes.set(address ?? '', node);
    return node;
  }
}
