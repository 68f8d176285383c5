// Divides lines into parts by key, so that data of any size can be processed visitor by visitor in bounded memory. Long
// parts go to unlinked files, which vanish with the process.

import { hash } from 'node:crypto';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Number of parts. Those of a file of 10 GB have 40 MB each. */
const PARTS = 256;
/** Characters of a part that are held in memory, before they go to its file. */
const HELD = 64 * 1024;

interface Part {
  held: string[];
  size: number;
  file?: FileHandle;
}

export class Spool {
  readonly #parts = Array.from({ length: PARTS }, (): Part => ({ held: [], size: 0 }));

  constructor(private readonly folder = tmpdir()) {}

  async add(key: string, line: string): Promise<void> {
    const part = this.#parts[Number.parseInt(hash('md5', key).slice(0, 4), 16) % PARTS] as Part;
    part.held.push(line);
    part.size += line.length;
    if (part.size < HELD) return;
    part.file ??= await nameless(this.folder);
    await part.file.appendFile(`${part.held.join('\n')}\n`);
    [part.held, part.size] = [[], 0];
  }

  /** Yields each part once, with its lines in the order of `add`. */
  async *parts(): AsyncGenerator<readonly string[]> {
    for (const part of this.#parts) {
      const { held, file } = part;
      part.held = [];
      const kept = file === undefined ? [] : (await readWhole(file)).split('\n').slice(0, -1);
      await file?.close();
      delete part.file;
      if (kept.length + held.length > 0) yield [...kept, ...held];
    }
  }

  async close(): Promise<void> {
    for (const { file } of this.#parts) await file?.close();
  }
}

async function nameless(parent: string): Promise<FileHandle> {
  const folder = await mkdtemp(join(parent, 'wishmeter-spool-'));
  const file = await open(join(folder, 'part'), 'wx+', 0o600);
  await rm(folder, { recursive: true });
  return file;
}

async function readWhole(file: FileHandle): Promise<string> {
  const { size } = await file.stat();
  const bytes = Buffer.allocUnsafe(size);
  for (let at = 0; at < size; ) at += (await file.read(bytes, at, size - at, at)).bytesRead;
  return bytes.toString();
}
