// Runs a loop for each enabled receiver. Several processes may run, since deliveries are leased.

import { setTimeout as sleep } from 'node:timers/promises';
import { repeat } from '../../repeat.js';
import { type AttemptSpec, attempt } from './attempt.js';
import { ANSWER_MS } from './post.js';
import type { Receiver } from './receiver.js';

const POLL_MS = 200;
const RETRY_MS = 2_000;
const MAX_CONCURRENT = 16;
/** Leaves 15 s for Redis calls before and after the request. */
const LEASE_MS = ANSWER_MS + 15_000;

export interface Deliverer {
  /** Waits for the deliveries in flight: each has its time limit. */
  close(): Promise<void>;
}

export function startDeliverer(spec: AttemptSpec): Deliverer {
  /** Enabled receivers, as of the last poll; emptied to end the loops. */
  const enabled = new Map<string, Receiver>();
  const loops = new Map<string, Promise<unknown>>();
  const stop = repeat(POLL_MS, async () => {
    try {
      const all = await spec.receivers.list();
      enabled.clear();
      for (const one of all) if (one.isEnabled) enabled.set(one.id, one);
    } catch (error) {
      spec.log.warn({ err: error }, 'receivers could not be read from Redis; trying again');
    }
    for (const id of enabled.keys()) {
      if (loops.has(id)) continue;
      const loop = deliverTo(spec, id, () => enabled.get(id));
      loops.set(id, loop);
      void loop.then(() => loops.delete(id));
    }
  });
  return {
    async close() {
      await stop();
      enabled.clear();
      await Promise.all(loops.values());
    },
  };
}

/** Never rejects. @param current returns the receiver, until it is disabled or removed, or the process ends */
async function deliverTo(spec: AttemptSpec, id: string, current: () => Receiver | undefined): Promise<void> {
  const log = spec.log.child({ receiver: id });
  const queue = spec.receivers.queue(id);
  const inFlight = new Set<Promise<void>>();
  let disabledWhy: string | undefined;
  try {
    for (let receiver = current(); receiver && disabledWhy === undefined; receiver = current()) {
      for (const taken of await queue.take(MAX_CONCURRENT - inFlight.size, LEASE_MS)) {
        const sent = attempt(spec, receiver, taken)
          .then((why) => {
            disabledWhy ??= why;
          })
          .catch((error) => {
            log.warn({ err: error }, 'Redis failed: a delivery is due again when its lease ends');
          })
          .finally(() => inFlight.delete(sent));
        inFlight.add(sent);
      }
      await Promise.race([...inFlight, sleep(POLL_MS)]);
    }
    await Promise.all(inFlight);
    if (disabledWhy === undefined) return;
    await spec.receivers.change(id, { isEnabled: false, disabledWhy });
    log.error({ why: disabledWhy }, 'a receiver is disabled: it is sent nothing until it is resumed');
  } catch (error) {
    log.warn({ err: error }, 'deliveries to a receiver stopped and will go on');
    await Promise.all([...inFlight, sleep(RETRY_MS)]);
  }
}
