// The file of Redis keys.

import { StartupError } from '../../errors.js';
import { type CheckedFile, readChecked } from './checked-file.js';

export interface KeyRecord {
  readonly key: string;
  /** The expiry, in milliseconds since 1970; -1 if the key doesn't expire. */
  readonly endsAt: number;
  readonly payload: Buffer;
}

const HEAD_BYTES = 4 + 4 + 8;

export async function writeRecord(file: CheckedFile, { key, endsAt, payload }: KeyRecord): Promise<void> {
  const name = Buffer.from(key);
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(name.length, 0);
  head.writeUInt32LE(payload.length, 4);
  head.writeBigInt64LE(BigInt(endsAt), 8);
  await file.write(Buffer.concat([head, name, payload]));
}

/** @throws StartupError if the last record is incomplete; errors of the disk */
export async function* readRecords(path: string): AsyncGenerator<KeyRecord> {
  let parts: Buffer[] = [];
  let size = 0;
  let wanted = HEAD_BYTES;
  for await (const chunk of readChecked(path)) {
    parts.push(chunk);
    size += chunk.length;
    if (size < wanted) continue;
    const bytes = Buffer.concat(parts);
    let at = 0;
    for (;;) {
      wanted = HEAD_BYTES;
      if (bytes.length - at < wanted) break;
      const nameBytes = bytes.readUInt32LE(at);
      wanted += nameBytes + bytes.readUInt32LE(at + 4);
      if (bytes.length - at < wanted) break;
      const name = at + HEAD_BYTES;
      yield {
        key: bytes.toString('utf8', name, name + nameBytes),
        endsAt: Number(bytes.readBigInt64LE(at + 8)),
        payload: bytes.subarray(name + nameBytes, at + wanted),
      };
      at += wanted;
    }
    parts = [bytes.subarray(at)];
    size = bytes.length - at;
  }
  if (size > 0) throw new StartupError('The file of Redis keys ends within a record.');
}
