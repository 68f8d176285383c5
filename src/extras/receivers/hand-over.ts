// Queues a flushed batch's events for receivers before the batch leaves its stream. After a crash they are queued
// again, with the same ids. Imported items are old and left out. Without receivers, a batch costs one HVALS.

import type { Logger } from 'pino';
import type { HandOver } from '../../app/extra.js';
import { eventTypeOf, isImport } from '../../events/row.js';
import type { RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { streamsOf } from '../../redis/node-markers.js';
import { together } from '../../together.js';
import { DeliveryQueue } from './queue.js';
import { type Receiver, takesType } from './receiver.js';

export function openHandOver(redis: RedisClient, keys: Keys, highWater: number, log: Logger): HandOver {
  const readReceivers = async () =>
    (await redis.hvals(keys.receivers)).map((kept) => JSON.parse(kept) as Receiver);
  const queueOf = (stream: number, receiver: string) =>
    new DeliveryQueue(redis, keys, { stream, receiver }, highWater);
  return {
    async handOver(stream, batch, refused) {
      const receivers = await readReceivers();
      if (receivers.length === 0) return;
      const left = new Set(refused.map(({ line }) => line.toString()));
      const lines = batch
        .toString()
        .split('\n')
        .filter((line) => line !== '' && !left.has(line) && !isImport(line));
      const give = async (receiver: Receiver) => {
        const taken = lines.filter((line) => takesType(receiver, eventTypeOf(line)));
        const dead = taken.length > 0 ? await queueOf(stream, receiver.id).add(taken) : 0;
        if (dead > 0)
          log.warn(
            { receiver: receiver.id, deliveries: dead },
            'a receiver has too many pending deliveries: the oldest become dead letters',
          );
      };
      await Promise.all(receivers.map(give));
    },
    async erase(erased) {
      const receivers = await readReceivers();
      if (receivers.length === 0) return;
      const streams = await streamsOf(redis, keys);
      const queues = streams.flatMap((stream) => receivers.map(({ id }) => queueOf(stream, id)));
      await together(queues.map((queue) => queue.erase(erased)));
    },
  };
}
