// `wishmeter deliver`: processes share the streams by epoch, as flushers do (src/flush/sharing.ts), and the owner of a stream
// sends what waits beside it: a sender for each receiver that is enabled.

import type { Logger } from 'pino';
import { pause } from '../backoff.js';
import { type Lease, OwnedStream } from '../flush/owned-stream.js';
import { Ownership } from '../flush/ownership.js';
import { type Sharer, SILENT_MS, type Signals, share } from '../flush/sharing.js';
import { ReceiverSender, type SenderSpec } from './sender.js';

/** How often it is asked which receivers there are. */
const LOOK_MS = 250;

export interface DelivererSpec extends SenderSpec {
  readonly log: Logger;
  /** A name that no other process has. */
  readonly owner: string;
  readonly silentMs?: number | undefined;
}

/** Never throws: what fails is logged and tried again until `close`. */
export function startDeliverer(spec: DelivererSpec): Pick<Sharer, 'close'> {
  const { store, owner, log, silentMs = SILENT_MS } = spec;
  const { client: redis, keys } = store;
  return share({
    ...{ redis, keys, team: keys.deliverers, owner, silentMs, log },
    open: (stream, signals, wake) => ({ deliveries: deliverStream(spec, stream, signals, wake) }),
  });
}

function deliverStream(
  spec: DelivererSpec,
  stream: number,
  { stop, halt }: Signals,
  onOver: () => void,
): OwnedStream {
  const { store, owner, silentMs = SILENT_MS } = spec;
  const log = spec.log.child({ deliveries: stream });
  const ownership = new Ownership(store.client, store.keys.deliveryOwner(stream));
  const owned: OwnedStream = new OwnedStream({
    ...{ ownership, owner, silentMs, log, stop, halt, onOver },
    work: (lease) => work(spec, stream, lease, log, () => owned.worked()),
  });
  return owned;
}

/** Keeps a sender for each receiver until the lease ends. */
async function work(
  spec: DelivererSpec,
  stream: number,
  lease: Lease,
  log: Logger,
  onLook: () => void,
): Promise<void> {
  const senders = new Map<string, { readonly sender: ReceiverSender; readonly ended: Promise<void> }>();
  const failed = new AbortController();
  const until = AbortSignal.any([lease.ending, failed.signal]);
  try {
    while (!until.aborted) {
      const enabled = new Map(
        (await spec.receivers.list()).filter(({ isEnabled }) => isEnabled).map((one) => [one.id, one]),
      );
      onLook();
      for (const [id, { sender }] of senders) {
        const receiver = enabled.get(id);
        if (receiver === undefined) sender.end();
        else sender.update(receiver);
      }
      for (const [id, receiver] of enabled) {
        if (senders.has(id)) continue;
        const queue = spec.receivers.queueAt(stream, id);
        const sender = new ReceiverSender(spec, receiver, queue, lease, log);
        const ended = sender
          .run()
          .catch((error) => failed.abort(error))
          .finally(() => senders.delete(id));
        senders.set(id, { sender, ended });
      }
      await pause(LOOK_MS, until);
    }
  } finally {
    for (const { sender } of senders.values()) sender.end();
    await Promise.all(Array.from(senders.values(), ({ ended }) => ended));
  }
  if (failed.signal.aborted) throw failed.signal.reason;
}
