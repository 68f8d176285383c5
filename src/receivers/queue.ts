// What waits for one receiver beside one stream of events: scripts as functions, which any process may call.

import type { ErasedUntil } from '../clickhouse/erased-rows.js';
import { isErased } from '../flush/erasures.js';
import type { RedisClient } from '../redis/client.js';
import type { DeliveryKeys, Keys } from '../redis/keys.js';
import { loadScript, runScript, type ScriptArg } from '../redis/scripts.js';
import type { QueueState } from './stand.js';

const ADD = loadScript<number>('deliveries-add');
const TAKE = loadScript<(string | number)[]>('deliveries-take');
const SETTLE = loadScript<number>('deliveries-settle');

const PAGE = 100;
/** Lines that one call adds: a page of them is done in a few milliseconds. */
const ADDED_AT_ONCE = 500;

export interface Taken {
  readonly id: string;
  readonly attempts: number;
  readonly line: string;
}

/** What became of a delivery. */
export interface Settled {
  readonly id: string;
  /** `drop`: its visitor was erased; `forget`: the same of a dead letter */
  readonly outcome: 'done' | 'again' | 'dead' | 'drop' | 'forget';
  readonly attempts?: number;
  /** Milliseconds until it is due again. */
  readonly againInMs?: number;
  readonly why?: string;
}

export class DeliveryQueue {
  readonly #redis: RedisClient;
  readonly #keys: DeliveryKeys;
  readonly #isKnown: () => Promise<number>;
  /** Bytes that may wait, and that dead letters may have. */
  readonly highWater: number;

  constructor(redis: RedisClient, keys: Keys, stream: number, receiver: string, highWater: number) {
    this.#redis = redis;
    this.#keys = keys.deliveries(stream, receiver);
    this.#isKnown = () => redis.hexists(keys.receivers, receiver);
    this.highWater = highWater;
  }

  /** @returns how many of those that wait became dead letters @throws Redis's errors */
  async add(lines: readonly string[]): Promise<number> {
    const { queue, taken, state, dead } = this.#keys;
    let buried = 0;
    for (let i = 0; i < lines.length; i += ADDED_AT_ONCE) {
      const args = [this.highWater, ...lines.slice(i, i + ADDED_AT_ONCE)];
      buried += await runScript(this.#redis, ADD, [queue, taken, state, dead], args);
    }
    // Removed meanwhile, it has nothing waiting any more.
    if ((await this.#isKnown()) === 0) await this.clear();
    return buried;
  }

  /** Deliveries that no other process is given for `leaseMs`. @throws Redis's errors */
  async take(count: number, leaseMs: number): Promise<Taken[]> {
    const { queue, taken, state } = this.#keys;
    const flat = await runScript(this.#redis, TAKE, [queue, taken, state], [count, leaseMs]);
    const found: Taken[] = [];
    for (let i = 0; i < flat.length; i += 3)
      found.push({ id: String(flat[i]), attempts: Number(flat[i + 1]), line: String(flat[i + 2]) });
    return found;
  }

  /** Whether a delivery still waits. @throws Redis's errors */
  async holds(id: string): Promise<boolean> {
    return (await this.#redis.xrange(this.#keys.queue, id, id)).length > 0;
  }

  /**
   * @returns since when every attempt has failed, milliseconds since 1970; 0 where the last one has not
   * @throws Redis's errors
   */
  settle(settled: readonly Settled[]): Promise<number> {
    const { queue, taken, state, dead } = this.#keys;
    const args: ScriptArg[] = settled.flatMap(({ id, outcome, attempts = 0, againInMs = 0, why = '' }) => [
      ...[id, outcome, attempts, Math.round(againInMs), why],
    ]);
    return runScript(this.#redis, SETTLE, [queue, taken, state, dead], [this.highWater, ...args]);
  }

  /** @throws Redis's errors */
  async state(): Promise<QueueState> {
    const { queue, taken, state } = this.#keys;
    const [pending, fields, [, again]] = await Promise.all([
      this.#redis.xlen(queue),
      this.#redis.hgetall(state),
      this.#redis.zrange(taken, '0', '0', 'WITHSCORES'),
    ]);
    const { cursor } = fields;
    const [first] = await this.#redis.xrange(queue, cursor ? `(${cursor}` : '-', '+', 'COUNT', 1);
    const addedAt = first === undefined ? Infinity : Number.parseInt(first[0], 10);
    const againAt = again === undefined ? Infinity : Math.floor(Number(again) / 16);
    return { ...fields, pending: String(pending), dueAt: String(Math.min(addedAt, againAt)) };
  }

  /** Begins anew to count since when attempts fail. @throws Redis's errors */
  async forgive(): Promise<void> {
    await this.#redis.hdel(this.#keys.state, 'failingSince');
  }

  /** Drops all of it, figures too. @throws Redis's errors */
  async clear(): Promise<void> {
    await this.#redis.unlink(...Object.values(this.#keys));
  }

  /** Drops what is of erased visitors, dead letters too. @throws Redis's errors */
  async erase(erased: ErasedUntil): Promise<void> {
    for (const [key, outcome] of [
      [this.#keys.queue, 'drop'],
      [this.#keys.dead, 'forget'],
    ] as const) {
      for (let from = '-'; ; ) {
        const page = await this.#redis.xrange(key, from, '+', 'COUNT', PAGE);
        const gone = page
          .filter(([, [, line = '']]) => isErased(line, erased))
          .map(([id]) => ({ id, outcome }));
        if (gone.length > 0) await this.settle(gone);
        if (page.length < PAGE) break;
        from = `(${page.at(-1)?.[0]}`;
      }
    }
  }
}
