// Queues a flushed batch's events for receivers before the batch leaves its stream. After a crash they are queued
// again, with the same ids. Imported items are left out, because they are old. Without receivers, a batch costs one
// HGETALL.

import type { Logger } from 'pino';
import type { HandOver } from '../../app/extra.js';
import { eventTypeOf, hasOrigin } from '../../events/row.js';
import type { RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { together } from '../../together.js';
import { IMPORT } from '../import/origin.js';
import { DeliveryQueue } from './queue.js';
import { type Receiver, takesType } from './receiver.js';
import { logUnreadable, readReceiverIds, readReceivers } from './receivers.js';

export function openHandOver(redis: RedisClient, keys: Keys, highWater: number, log: Logger): HandOver {
  const queueOf = (receiver: string) => new DeliveryQueue(redis, keys, receiver, highWater);
  /** Receivers that have a batch: a hand-over is repeated until all have it. */
  const given = new WeakMap<Buffer, Set<string>>();
  const onUnreadable = logUnreadable(log);
  return {
    async handOver(batch, refused) {
      const receivers = await readReceivers(redis, keys, onUnreadable);
      if (receivers.length === 0) return;
      const left = new Set(refused.map(({ line }) => line.toString()));
      const lines = batch
        .toString()
        .split('\n')
        .filter((line) => line !== '' && !left.has(line) && !hasOrigin(line, IMPORT));
      const having = given.get(batch) ?? new Set();
      given.set(batch, having);
      const give = async (receiver: Receiver) => {
        const taken = lines.filter((line) => takesType(receiver, eventTypeOf(line)));
        const dead = taken.length > 0 ? await queueOf(receiver.id).add(taken) : 0;
        if (dead > 0)
          log.warn(
            { receiver: receiver.id, deliveries: dead },
            'a receiver has too many pending deliveries: the oldest become dead letters',
          );
        having.add(receiver.id);
      };
      await together(receivers.filter(({ id }) => !having.has(id)).map(give));
    },
    async erase(erased) {
      for (const id of await readReceiverIds(redis, keys)) await queueOf(id).erase(erased);
    },
  };
}
