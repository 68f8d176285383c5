// Knows each slot's master, and whether it is up (node.ts). Probes notice a loss of data, a demotion without a closed
// connection, and recoveries. ioredis's Cluster refreshes its table of slots only after MOVED; we also do while a
// master is down.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster, Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import type { RedisClient } from './client.js';
import { hasTooFewReplicas, inWords, isForbidden, refusesWrites } from './failures.js';
import type { Keys } from './keys.js';
import { RedisNode } from './node.js';
import { type DeploymentLostError, NodeMarkers, slotOf } from './node-markers.js';

export interface HealthSpec {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly salt: string;
  readonly timeoutMs: number;
  /** REDIS_REPLICAS */
  readonly replicas?: number;
  /** Called after failed probes, and once after a loss. */
  readonly onError: (error: Error) => void;
  readonly onReplicated?: ((ms: number) => void) | undefined;
  readonly verifyMs?: number | undefined;
}

export interface MasterState {
  /** `host:port`; undefined for a single server. */
  readonly address: string | undefined;
  readonly state: 'up' | 'too_few_replicas' | 'readonly' | 'away';
  readonly reason?: string;
}

/** Tags to remember; each takes 100 bytes. */
const MAX_TAGS = 50_000;
const VERIFY_MS = 2_000;
const POLL_MS = 5;
const OPEN_MS = 2_000;
const REFRESH_MS = 200;
const MEASURE_MS = 10_000;
const COUNT_REPLICAS_MS = 1_000;

export class RedisHealth {
  readonly #markers: NodeMarkers;
  readonly #cluster: Cluster | undefined;
  readonly #nodes = new Map<string, RedisNode>();
  readonly #slotsOfTags: LRUCache<string, number> | undefined;
  readonly #only: RedisNode | undefined;
  readonly #timers: NodeJS.Timeout[];
  #masters: ReadonlySet<string | undefined> = new Set();
  #nextPoll: Promise<void> | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(private readonly spec: HealthSpec) {
    const { client, keys, salt, verifyMs = VERIFY_MS, replicas = 0 } = spec;
    this.#markers = new NodeMarkers(client, keys, salt);
    if (client.isCluster) {
      this.#cluster = client as Cluster;
      this.#slotsOfTags = new LRUCache({ max: MAX_TAGS });
      this.#cluster.on('refresh', () => this.#readTable());
      this.#cluster.on('+node', () => this.#readNodes());
      this.#readTable();
    } else {
      this.#only = this.#newNode(undefined, () => true);
      this.#only.adopt(client as Redis);
    }
    this.#timers = [
      setInterval(() => void this.check(), verifyMs),
      setInterval(() => this.#measureAll(), MEASURE_MS),
      setInterval(() => this.#refreshIfNeeded(), REFRESH_MS),
    ];
    if (replicas > 0) this.#timers.push(setInterval(() => this.#countReplicas(), COUNT_REPLICAS_MS));
    for (const timer of this.#timers) timer.unref();
  }

  /** On a cluster, true unless the deployment is lost, even if masters are down. */
  get isUp(): boolean {
    return this.#only === undefined ? this.#lost === undefined : this.#only.isUp;
  }

  get isCircuitOpen(): boolean {
    return this.#only === undefined ? this.#lost !== undefined : this.#only.isCircuitOpen;
  }

  slotOf(key: string): number {
    return this.#only === undefined ? slotOf(key) : 0;
  }

  nodeOf(slot: number): RedisNode | undefined {
    return this.#only ?? this.#nodes.get(this.#cluster?.slots[slot]?.[0] ?? '');
  }

  /** Undefined if the master is down, and on one server. */
  addressOf(tag: string): string | undefined {
    if (this.#slotsOfTags === undefined) return undefined;
    let slot = this.#slotsOfTags.get(tag);
    if (slot === undefined) {
      slot = this.slotOf(tag);
      this.#slotsOfTags.set(tag, slot);
    }
    const node = this.nodeOf(slot);
    return node?.isUp ? node.address : undefined;
  }

  streamAt(address: string | undefined): number | undefined {
    return this.#at(address)?.stream;
  }

  get streams(): ReadonlySet<number> {
    return new Set([...this.#nodes.values()].flatMap(({ stream }) => (stream === undefined ? [] : [stream])));
  }

  /** Milliseconds of the node's clock, or of any node's if the address is unknown. @param time monotonic */
  timeAt(address: string | undefined, time: number): number {
    const node = this.#at(address) ?? [...this.#nodes.values()][0];
    return node?.clock.at(time) ?? Date.now();
  }

  #at(address: string | undefined): RedisNode | undefined {
    return address === undefined ? this.#only : this.#nodes.get(address);
  }

  /** Resolves when all masters are probed, or within OPEN_MS. @throws Redis's error if the user lacks a permission */
  async opened(): Promise<void> {
    const deadline = performance.now() + Math.min(this.spec.timeoutMs, OPEN_MS);
    const isOpen = (node: RedisNode) => node.isUp || node.lost !== undefined;
    while (![...this.#nodes.values()].every(isOpen) && performance.now() < deadline) await sleep(POLL_MS);
    for (const { trouble } of this.#nodes.values()) if (trouble && isForbidden(trouble)) throw trouble;
  }

  async untilUp(slot: number, deadline: number): Promise<RedisNode> {
    if (this.nodeOf(slot) === undefined) this.#cluster?.refreshSlotsCache();
    for (;;) {
      const node = this.nodeOf(slot);
      const isLost = this.#isClosed || this.#lost !== undefined || node?.isCircuitOpen;
      if (isLost || performance.now() >= deadline) throw new ServiceError('unavailable');
      if (node?.isUp) return node;
      // One timer for all callers.
      this.#nextPoll ??= sleep(POLL_MS).then(() => {
        this.#nextPoll = undefined;
      });
      await this.#nextPoll;
    }
  }

  refreshSlots(): void {
    const now = performance.now();
    if (this.#cluster === undefined || now - this.#refreshedAt < POLL_MS * 4) return;
    this.#refreshedAt = now;
    this.#cluster.refreshSlotsCache();
  }

  moved(slot: number, address: string): void {
    const cluster = this.#cluster;
    if (cluster === undefined) return;
    if (this.#nodes.has(address)) cluster.slots[slot] = [address];
    cluster.refreshSlotsCache();
  }

  get masters(): readonly MasterState[] {
    return [...this.#nodes.values()].map(({ address, trouble }) => {
      const error = this.#lost ?? trouble;
      if (error === undefined) return { address, state: 'up' };
      return { address, state: stateOf(error), reason: inWords(error) };
    });
  }

  async check(): Promise<void> {
    const nodes = [...this.#nodes.values()].filter(({ isUp, lost }) => isUp || lost !== undefined);
    await Promise.allSettled(nodes.map((node) => node.check()));
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Losing the node of `meta` loses the deployment. */
  get #lost(): DeploymentLostError | undefined {
    return this.nodeOf(this.#markers.meta.slot)?.lost;
  }

  #measureAll(): void {
    for (const node of this.#nodes.values()) {
      if (node.isUp) node.clock.measure(node.redis).catch(this.spec.onError);
    }
  }

  #countReplicas(): void {
    // Without an answer, too few are known.
    for (const node of this.#nodes.values()) if (node.isUp) node.countReplicas().catch(() => {});
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

  #readTable(): void {
    const cluster = this.#cluster as Cluster;
    const owners = cluster.slots.map((addresses) => addresses?.[0]);
    this.#masters = new Set(owners);
    this.#readNodes();
    for (const [address, node] of this.#nodes) {
      if (!this.#masters.has(address)) this.#nodes.delete(address);
      // Its stream has moved with the slot: don't wait for the next probe.
      else if (node.isUp && !node.hasMarker) node.check().catch(this.spec.onError);
    }
  }

  #readNodes(): void {
    const cluster = this.#cluster as Cluster;
    for (const redis of cluster.nodes('master')) {
      const address = `${redis.options.host}:${redis.options.port}`;
      // Startup nodes may have other names, without slots.
      if (!this.#masters.has(address)) continue;
      const has = (slot: number) => cluster.slots[slot]?.[0] === address;
      (this.#nodes.get(address) ?? this.#newNode(address, has)).adopt(redis);
    }
  }

  #newNode(address: string | undefined, has: (slot: number) => boolean): RedisNode {
    const { timeoutMs, replicas = 0, onError, onReplicated } = this.spec;
    const node = new RedisNode({
      address,
      markers: this.#markers,
      timeoutMs,
      replicas,
      has,
      onMoved: (slot, to) => this.moved(slot, to),
      onError,
      onReplicated,
    });
    this.#nodes.set(address ?? '', node);
    return node;
  }
}

function stateOf(error: Error): MasterState['state'] {
  if (hasTooFewReplicas(error)) return 'too_few_replicas';
  return refusesWrites(error) ? 'readonly' : 'away';
}
