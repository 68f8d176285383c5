// Runs a sender for each enabled receiver and stream. Several processes may run, since deliveries are leased.

import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import { pause } from '../../backoff.js';
import { ANSWER_MS } from './post.js';
import { ReceiverSender, type SenderSpec } from './sender.js';

const POLL_MS = 250;

export interface DelivererSpec extends SenderSpec {
  readonly log: Logger;
}

export interface Deliverer {
  /** Waits for deliveries in flight. After `deadlineMs` it drops the rest, which is due again when its lease ends. */
  close(deadlineMs?: number): Promise<void>;
}

export function startDeliverer(spec: DelivererSpec): Deliverer {
  const stop = new AbortController();
  const abort = new AbortController();
  setMaxListeners(0, abort.signal); // one per sender
  const running = run(spec, stop.signal, abort.signal);
  return {
    async close(deadlineMs = ANSWER_MS) {
      stop.abort();
      const deadline = setTimeout(() => abort.abort(), deadlineMs);
      await running;
      clearTimeout(deadline);
    },
  };
}

/** `drain` stops leasing; `abort` drops deliveries in flight. */
async function run(spec: DelivererSpec, drain: AbortSignal, abort: AbortSignal): Promise<void> {
  const { receivers, log } = spec;
  /** Senders by stream and receiver; at most MAX_RECEIVERS per stream. */
  const senders = new Map<string, { readonly sender: ReceiverSender; readonly ended: Promise<void> }>();
  while (!drain.aborted) {
    try {
      const [all, streams] = await Promise.all([receivers.list(), receivers.streams()]);
      for (const receiver of all)
        for (const stream of streams) {
          const name = `${stream} ${receiver.id}`;
          const running = senders.get(name);
          if (running === undefined && receiver.isEnabled && !drain.aborted) {
            const queue = receivers.queueAt(stream, receiver.id);
            const sender = new ReceiverSender(spec, receiver, queue, log.child({ deliveries: stream }));
            senders.set(name, { sender, ended: sender.run(abort).finally(() => senders.delete(name)) });
          } else running?.sender.update(receiver);
        }
      for (const { sender } of senders.values())
        if (!all.some(({ id }) => id === sender.receiver.id)) sender.end();
    } catch (error) {
      log.warn({ err: error }, 'receivers could not be read from Redis; trying again');
    }
    await pause(POLL_MS, drain);
  }
  for (const { sender } of senders.values()) sender.end();
  await Promise.all(Array.from(senders.values(), ({ ended }) => ended));
}
