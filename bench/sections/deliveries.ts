// How many deliveries a second one `wishmeter deliver` sends to a receiver on this machine, and what they cost it.

import { fork } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeEvent } from '../../src/events/row.js';
import { DeliveryQueue } from '../../src/receivers/queue.js';
import { createReceiver } from '../../src/receivers/receiver.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Bench } from '../bench.js';
import { cpuSeconds } from '../cpu.js';
import { connectTo, startBenchRedis } from '../servers/redis.js';
import { startCommand, wishmeterEnv } from '../servers/wishmeter.js';

const PROCESS = new URL('../load/receiver-process.js', import.meta.url);
const DELIVERIES = 100_000;
const QUICK = 10_000;
const VISITORS = 10_000;
const POLL_MS = 20;
const HIGH_WATER = 1e9;
const WHO = { customerId: null, device: 'phone', locale: 'de', email: null, firstName: null, lastName: null };

export interface Deliveries {
  readonly deliveries: number;
  readonly perSecond: number;
  /** Microseconds of CPU of `deliver` for each. */
  readonly cpuUs: number;
}

export async function measureDeliveries({ settings, say, folder }: Bench): Promise<Deliveries> {
  const redis = await startBenchRedis(join(folder(), 'redis'));
  const client = connectTo(redis);
  const receiver = fork(PROCESS);
  try {
    let taken = 0;
    const port = await new Promise<number>((resolve) => {
      receiver.on('message', (message: { port?: number; taken?: number }) => {
        if (message.port !== undefined) resolve(message.port);
        taken = message.taken ?? taken;
      });
    });
    const env = {
      ...wishmeterEnv(redis),
      RECEIVERS_PRIVATE: 'allow',
      RECEIVERS_HIGH_WATER: String(HIGH_WATER),
    };
    const deliver = await startCommand('deliver', env);
    try {
      const keys = createKeys('wm');
      const made = createReceiver({
        ...{ url: `http://127.0.0.1:${port}/`, types: ['*'], includePersonal: false },
      });
      const keep = (isEnabled: boolean) =>
        client.hset(keys.receivers, made.id, JSON.stringify({ ...made, isEnabled }));
      await keep(false);
      const deliveries = settings.quick ? QUICK : DELIVERIES;
      say(`${deliveries} deliveries are queued`);
      const lines = Array.from({ length: deliveries }, (_, i) =>
        encodeEvent({
          ...{ type: 'add', origin: 'item', profileId: `1.s${i % VISITORS}` },
          identity: { ...WHO, sessionId: `s-${i % VISITORS}` },
          payload: { productId: '1001', productTitle: 'Red shoe', price: '79.90', currencyCode: 'EUR' },
        }),
      );
      await new DeliveryQueue(client, keys, 0, made.id, HIGH_WATER).add(lines);
      const pid = deliver.pid as number;
      const before = cpuSeconds(pid);
      const began = performance.now();
      await keep(true);
      while (taken < deliveries) await sleep(POLL_MS);
      const seconds = (performance.now() - began) / 1_000;
      const cpuUs = ((cpuSeconds(pid) - before) / deliveries) * 1e6;
      const perSecond = deliveries / seconds;
      say(`${Math.round(perSecond)} deliveries/s, ${cpuUs.toFixed(0)} µs of CPU each`);
      return { deliveries, perSecond, cpuUs };
    } finally {
      await deliver.stop();
    }
  } finally {
    receiver.disconnect();
    client.disconnect();
    await redis.stop();
  }
}
