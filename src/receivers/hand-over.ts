// Hands the events of a flushed batch over to the receivers that take their type, before the batch leaves its stream. A crash
// in between hands them over again, under the same ids. While there are no receivers this is one HVALS of no key for each batch.

import type { Logger } from 'pino';
import type { ErasedUntil } from '../clickhouse/erased-rows.js';
import { eventTypeOf } from '../events/row.js';
import type { Refused } from '../flush/fenced-stream.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { streamsOf } from '../redis/marks.js';
import { DeliveryQueue } from './queue.js';
import { type Receiver, takesType } from './receiver.js';

export class HandOver {
  readonly #redis: RedisClient;
  readonly #keys: Keys;
  readonly #highWater: number;
  readonly #log: Logger;

  constructor(redis: RedisClient, keys: Keys, highWater: number, log: Logger) {
    this.#redis = redis;
    this.#keys = keys;
    this.#highWater = highWater;
    this.#log = log;
  }

  /**
   * @param stream that the batch is of @param batch lines, each ended by a newline
   * @param refused those that ClickHouse refused: they come again when their dead letters are retried
   * @throws Redis's errors
   */
  readonly handOver = async (stream: number, batch: Buffer, refused: readonly Refused[]): Promise<void> => {
    const receivers = await this.#receivers();
    if (receivers.length === 0) return;
    const left = new Set(refused.map(({ line }) => line.toString()));
    const lines = batch
      .toString()
      .split('\n')
      .filter((line) => line !== '' && !left.has(line));
    await Promise.all(receivers.map((receiver) => this.#give(stream, receiver, lines)));
  };

  /** Drops what waits of erased visitors. @throws Redis's errors */
  readonly erase = async (erased: ErasedUntil): Promise<void> => {
    const receivers = await this.#receivers();
    if (receivers.length === 0) return;
    for (const stream of await streamsOf(this.#redis, this.#keys))
      for (const { id } of receivers) await this.#queue(stream, id).erase(erased);
  };

  async #give(stream: number, receiver: Receiver, lines: readonly string[]): Promise<void> {
    const taken = lines.filter((line) => takesType(receiver, eventTypeOf(line)));
    if (taken.length === 0) return;
    const buried = await this.#queue(stream, receiver.id).add(taken);
    if (buried > 0)
      this.#log.warn(
        { receiver: receiver.id, deliveries: buried },
        'too much waits for a receiver: the oldest deliveries are dead letters',
      );
  }

  async #receivers(): Promise<Receiver[]> {
    return (await this.#redis.hvals(this.#keys.receivers)).map((kept) => JSON.parse(kept) as Receiver);
  }

  #queue(stream: number, receiver: string): DeliveryQueue {
    return new DeliveryQueue(this.#redis, this.#keys, stream, receiver, this.#highWater);
  }
}
