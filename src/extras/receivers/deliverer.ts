// Runs a loop for each enabled receiver. Several processes may run, since deliveries are leased.

import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../../backoff.js';
import { repeat } from '../../repeat.js';
import { type AttemptSpec, attempt } from './attempt.js';
import { ANSWER_MS } from './post.js';

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
  const { receivers, log } = spec;
  const loops = new Map<string, Promise<void>>();
  let isAway = false;
  const stop = repeat(POLL_MS, async (closing) => {
    const all = await receivers.list().catch((error: Error) => {
      if (!isAway) log.warn({ err: error }, 'receivers could not be read from Redis; trying again');
      isAway = true;
    });
    if (all === undefined) return;
    if (isAway) log.info('receivers are read from Redis again');
    isAway = false;
    for (const { id, isEnabled } of all) {
      if (!isEnabled || loops.has(id)) continue;
      const loop = deliverTo(spec, id, closing).finally(() => loops.delete(id));
      loops.set(id, loop);
    }
  });
  return {
    async close() {
      await stop();
      await Promise.all(loops.values());
    },
  };
}

/** Ends once the receiver is disabled or removed, at an error of Redis, or when the process ends. Never rejects. */
async function deliverTo(spec: AttemptSpec, id: string, closing: AbortSignal): Promise<void> {
  const { receivers } = spec;
  const log = spec.log.child({ receiver: id });
  const inFlight = new Set<Promise<void>>();
  let disabledWhy: string | undefined;
  try {
    while (!closing.aborted && disabledWhy === undefined) {
      const receiver = await receivers.find(id);
      if (!receiver?.isEnabled) break;
      for (const taken of await receivers.queue(id).take(MAX_CONCURRENT - inFlight.size, LEASE_MS)) {
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
    if (disabledWhy === undefined || (await receivers.find(id)) === undefined) return;
    await receivers.change(id, { isEnabled: false, disabledWhy });
    log.error({ why: disabledWhy }, 'a receiver is disabled: it is sent nothing until it is resumed');
  } catch (error) {
    log.warn({ err: error }, 'deliveries to a receiver stopped and will go on');
    await Promise.all([...inFlight, pause(RETRY_MS, closing)]);
  }
}
