// Writes a streamed body with back-pressure. If the body fails, the connection is cut, so that no client takes the body
// for complete.

import type { HttpResponse } from 'uWebSockets.js';
import { overloaded } from '../errors.js';
import type { TextStream } from './operation.js';
import type { PendingAnswer, PendingBytes } from './pending-bytes.js';

const PART = 64 * 1024;

export interface PumpEvents {
  onPart(bytes: number): void;
  onCut(error: Error): void;
}

/** @returns the answer, which is pending until the client has read all or disconnects */
export function pump(
  res: HttpResponse,
  body: TextStream,
  pending: PendingBytes,
  events: PumpEvents,
): PendingAnswer {
  const held = pending.hold(
    0,
    () => res.close(),
    () => body.close(),
  );
  write(res, body, { pending, held }, events).catch((error: Error) => {
    // After a disconnect the body fails, too.
    if (!pending.holds(held)) return;
    pending.release(held);
    events.onCut(error);
    res.close();
  });
  return held;
}

async function write(
  res: HttpResponse,
  body: TextStream,
  { pending, held }: { readonly pending: PendingBytes; readonly held: PendingAnswer },
  events: PumpEvents,
): Promise<void> {
  let wake: (() => void) | undefined;
  res.onWritable(() => {
    wake?.();
    return true;
  });
  for await (const part of parts(body)) {
    if (!pending.holds(held)) return;
    let isTaken = false;
    res.cork(() => {
      isTaken = res.write(part);
    });
    events.onPart(part.length);
    if (!isTaken) {
      if (!pending.makeRoom(part.length)) throw overloaded('readers');
      if (!pending.holds(held)) return;
      pending.exchange(held, part.length);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      pending.exchange(held, 0);
    }
    held.taken += part.length;
  }
  if (!pending.holds(held)) return;
  pending.release(held);
  res.cork(() => res.end());
}

async function* parts(body: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const text of body) {
    const bytes = Buffer.from(text);
    for (let from = 0; from < bytes.length; from += PART) yield bytes.subarray(from, from + PART);
  }
}
