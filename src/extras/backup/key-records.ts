// The two files of Redis keys. The second one has the profiles that were dumped again. A record with the profile's id
// and without a payload precedes each of its dumps.

import { StartupError } from '../../errors.js';
import { type CheckedFile, readChecked } from './checked-file.js';
import { kindOf } from './key-kinds.js';

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

export function writeDumpOf(file: CheckedFile, profileId: string): Promise<void> {
  return writeRecord(file, { key: profileId, endsAt: -1, payload: Buffer.alloc(0) });
}

/** Yields each key once, as in the last dump of its profile. @param prefix includes the colon */
export async function* readDump(
  [all, again]: readonly [string, string],
  prefix: string,
): AsyncGenerator<KeyRecord> {
  const lastDumps = new Map<string, number>();
  let dumps = 0;
  for await (const { key, payload } of readRecords(again))
    if (payload.length === 0) lastDumps.set(key, ++dumps);
  for await (const record of readRecords(all)) {
    const profileId = kindOf(record.key.slice(prefix.length))?.profileId;
    if (profileId === undefined || !lastDumps.has(profileId)) yield record;
  }
  dumps = 0;
  let isLast = false;
  for await (const record of readRecords(again)) {
    if (record.payload.length === 0) isLast = lastDumps.get(record.key) === ++dumps;
    else if (isLast) yield record;
  }
}

/** @throws StartupError if the last record is incomplete; errors of the disk */
async function* readRecords(path: string): AsyncGenerator<KeyRecord> {
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
