// `wishmeter deliver`: a sender for each receiver that is enabled, beside each stream of events. Any number of these processes
// work beside each other and need to know nothing of each other: a queue gives each delivery to one of them (sender.ts).

import type { Logger } from 'pino';
import { pause } from '../backoff.js';
import { ANSWER_MS } from './post.js';
import { ReceiverSender, type SenderSpec } from './sender.js';

/** How often it is asked which receivers there are. */
const LOOK_MS = 250;

export interface DelivererSpec extends SenderSpec {
  readonly log: Logger;
}

export interface Deliverer {
  /** Takes no more, and settles what is in flight. What has no answer after `deadlineMs` is due again when its lease ends. */
  close(deadlineMs?: number): Promise<void>;
}

/** Never throws: what fails is logged and tried again until `close`. */
export function startDeliverer(spec: DelivererSpec): Deliverer {
  const stop = new AbortController();
  const halt = new AbortController();
  const running = run(spec, stop.signal, halt.signal);
  return {
    async close(deadlineMs = ANSWER_MS) {
      stop.abort();
      const deadline = setTimeout(() => halt.abort(), deadlineMs);
      await running;
      clearTimeout(deadline);
    },
  };
}

/** Keeps the senders until `stop`. @param halt aborts when what is in flight is waited for no longer */
async function run(spec: DelivererSpec, stop: AbortSignal, halt: AbortSignal): Promise<void> {
  const { receivers, log } = spec;
  /** By stream and receiver: MAX_RECEIVERS of each stream. */
  const senders = new Map<string, { readonly sender: ReceiverSender; readonly ended: Promise<void> }>();
  while (!stop.aborted) {
    try {
      const [all, streams] = await Promise.all([receivers.list(), receivers.streams()]);
      for (const receiver of all)
        for (const stream of streams) {
          const name = `${stream} ${receiver.id}`;
          const running = senders.get(name);
          if (running === undefined && receiver.isEnabled && !stop.aborted) {
            const queue = receivers.queueAt(stream, receiver.id);
            const sender = new ReceiverSender(spec, receiver, queue, log.child({ deliveries: stream }));
            senders.set(name, { sender, ended: sender.run(halt).finally(() => senders.delete(name)) });
          } else running?.sender.update(receiver);
        }
      for (const { sender } of senders.values())
        if (!all.some(({ id }) => id === sender.receiver.id)) sender.end();
    } catch (error) {
      log.warn({ err: error }, 'Redis did not say which receivers there are and will be asked again');
    }
    await pause(LOOK_MS, stop);
  }
  for (const { sender } of senders.values()) sender.end();
  await Promise.all(Array.from(senders.values(), ({ ended }) => ended));
}
