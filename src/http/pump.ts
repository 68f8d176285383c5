// Writes a body that is made as its reader takes it. No more than one part of it waits for the reader in this process, and that one
// is counted (src/http/pending-bytes.ts). Its length is not known, so it is chunked: where it can't be completed the connection is
// cut, and no reader takes what it has for the whole. uWebSockets.js cuts a reader that takes nothing for some 10 s.

import type { HttpResponse } from 'uWebSockets.js';
import { overloaded } from '../errors.js';
import type { TextStream } from './operation.js';
import type { PendingAnswer, PendingBytes } from './pending-bytes.js';

/** Bytes that are written at once. */
const PART = 64 * 1024;

export interface PumpEvents {
  /** Called with the bytes of each part. */
  onPart(bytes: number): void;
  /** Called when the body could not be completed; not when its reader left. */
  onCut(error: Error): void;
}

/** @returns what waits for the reader, until it has left, is cut, or has all; the body is closed by then */
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
  write(res, body, pending, held, events).catch((error: Error) => {
    // Its reader left, or was cut: what it was read from ends with an error, too.
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
  pending: PendingBytes,
  held: PendingAnswer,
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
      // To make room, this reader may have been cut.
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
