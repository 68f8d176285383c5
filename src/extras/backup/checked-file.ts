// A backup's files: gzip, readable by their owner only, with the SHA-256 of the compressed bytes.

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';

export interface FileSum {
  readonly bytes: number;
  readonly sha256: string;
}

export interface CheckedFile {
  write(bytes: Buffer): Promise<void>;
  /** Resolves after fsync. */
  close(): Promise<FileSum>;
}

/** Methods throw the disk's error. @param path must not exist yet */
export function createChecked(path: string): CheckedFile {
  const hash = createHash('sha256');
  let bytes = 0;
  const sum = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      bytes += chunk.length;
      done(null, chunk);
    },
  });
  const gzip = createGzip({ level: 1 });
  const done = pipeline(gzip, sum, createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true }));
  done.catch(() => {}); // `write` and `close` throw the error
  let drained: Promise<unknown> | undefined;
  return {
    async write(chunk) {
      if (gzip.write(chunk)) return;
      drained ??= once(gzip, 'drain').finally(() => {
        drained = undefined;
      });
      await Promise.race([drained, done]);
    },
    async close() {
      gzip.end();
      await done;
      return { bytes, sha256: hash.digest('hex') };
    },
  };
}

export async function sumOf(path: string): Promise<FileSum> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: hash.digest('hex') };
}

export async function* readChecked(path: string): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  const reading = pipeline(createReadStream(path), gunzip);
  reading.catch(() => {}); // the loop throws the error
  for await (const chunk of gunzip as AsyncIterable<Buffer>) yield chunk;
  await reading;
}
