// What waits for one receiver beside one stream of events: scripts as functions. They are safe to repeat, and what changes
// the order of things is refused under an older epoch.

import type { ErasedUntil } from '../clickhouse/erased-rows.js';
import { isErased } from '../flush/erasures.js';
import { Ownership } from '../flush/ownership.js';
import type { RedisClient } from '../redis/client.js';
import type { DeliveryKeys, Keys } from '../redis/keys.js';
import { loadScript, runScript, type ScriptArg } from '../redis/scripts.js';
import type { QueueState } from './stand.js';

const ADD = loadScript<number>('deliveries-add');
const NEXT = loadScript('deliveries-next');
const SETTLE = loadScript('deliveries-settle');

const PAGE = 100;
/** Lines that one call adds: a page of them is done in a few milliseconds. */
const ADDED_AT_ONCE = 500;

export interface Waiting {
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
  readonly #owner: string;
  readonly #ownership: Ownership;
  /** Bytes that may wait, and that dead letters may have. */
  readonly highWater: number;

  constructor(redis: RedisClient, keys: Keys, stream: number, receiver: string, highWater: number) {
    this.#redis = redis;
    this.#keys = keys.deliveries(stream, receiver);
    this.#isKnown = () => redis.hexists(keys.receivers, receiver);
    this.#owner = keys.deliveryOwner(stream);
    this.#ownership = new Ownership(redis, this.#owner);
    this.highWater = highWater;
  }

  /** @returns how many of those that wait became dead letters @throws Redis's errors */
  async add(lines: readonly string[]): Promise<number> {
    const { queue, retries, state, dead } = this.#keys;
    let buried = 0;
    for (let i = 0; i < lines.length; i += ADDED_AT_ONCE) {
      const args = [this.highWater, ...lines.slice(i, i + ADDED_AT_ONCE)];
      buried += await runScript(this.#redis, ADD, [queue, retries, state, dead], args);
    }
    // Removed meanwhile, it has nothing waiting any more.
    if ((await this.#isKnown()) === 0) await this.clear();
    return buried;
  }

  /**
   * @param after id of the last delivery that was read; `-` for none @param count at most, of each kind
   * @throws FencedError, Redis's errors
   */
  async next(
    epoch: string,
    after: string,
    count: number,
  ): Promise<{ readonly last: string; readonly found: readonly Waiting[] }> {
    const { queue, retries } = this.#keys;
    const reply = await this.#ownership.fenced(NEXT, [this.#owner, queue, retries], [epoch, after, count]);
    const [last, flat] = reply as [string, (string | number)[]];
    const found: Waiting[] = [];
    for (let i = 0; i < flat.length; i += 3)
      found.push({ id: String(flat[i]), attempts: Number(flat[i + 1]), line: String(flat[i + 2]) });
    return { last, found };
  }

  /** Whether a delivery still waits. @throws Redis's errors */
  async holds(id: string): Promise<boolean> {
    return (await this.#redis.xrange(this.#keys.queue, id, id)).length > 0;
  }

  /**
   * @param epoch empty for `drop` and `forget`
   * @returns since when every attempt has failed, milliseconds since 1970; 0 where the last one has not
   * @throws FencedError, Redis's errors
   */
  async settle(epoch: string, settled: readonly Settled[]): Promise<number> {
    const { queue, retries, state, dead } = this.#keys;
    const args: ScriptArg[] = settled.flatMap(({ id, outcome, attempts = 0, againInMs = 0, why = '' }) => [
      ...[id, outcome, attempts, Math.round(againInMs), why],
    ]);
    const touched = [this.#owner, queue, retries, state, dead];
    return (await this.#ownership.fenced(SETTLE, touched, [epoch, this.highWater, ...args])) as number;
  }

  /** @throws Redis's errors */
  async state(): Promise<QueueState> {
    const { queue, state } = this.#keys;
    const [pending, fields] = await Promise.all([this.#redis.xlen(queue), this.#redis.hgetall(state)]);
    return { ...fields, pending: String(pending) };
  }

  /** Begins anew to count since when attempts fail. @throws Redis's errors */
  async forgive(): Promise<void> {
    await this.#redis.hdel(this.#keys.state, 'failingSince');
  }

  /** Drops all of it, figures too. @throws Redis's errors */
  async clear(): Promise<void> {
    const { queue, retries, state, dead } = this.#keys;
    await this.#redis.unlink(queue, retries, state, dead);
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
        if (gone.length > 0) await this.settle('', gone);
        if (page.length < PAGE) break;
        from = `(${page.at(-1)?.[0]}`;
      }
    }
  }
}
