// Divides lines into parts by key, so that data of any size can be processed visitor by visitor in bounded memory. Long
// parts go to unlinked files, which vanish with the process.

import { hash } from 'node:crypto';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StartupError } from '../../errors.js';

/** Number of parts. Those of a file of 10 GB have 40 MB each. */
const PARTS = 256;
/** Characters of a part that are held in memory, before they go to its file. */
const HELD = 64 * 1024;
const READ_BYTES = 256 * 1024;

interface Part {
  held: string[];
  heldSize: number;
  size: number;
  file?: FileHandle;
}

export interface SpoolPart {
  /** Characters. */
  readonly size: number;
  /** In the order of `add`. Call once, before the next part. */
  lines(): AsyncGenerator<string>;
}

export class Spool {
  readonly #parts = Array.from({ length: PARTS }, (): Part => ({ held: [], heldSize: 0, size: 0 }));

  constructor(private readonly folder = tmpdir()) {}

  /** @throws StartupError if there is no room in the folder */
  async add(key: string, line: string): Promise<void> {
    const part = this.#parts[Number.parseInt(hash('md5', key).slice(0, 4), 16) % PARTS] as Part;
    part.held.push(line);
    part.heldSize += line.length;
    part.size += line.length;
    if (part.heldSize < HELD) return;
    try {
      part.file ??= await nameless(this.folder);
      await part.file.appendFile(`${part.held.join('\n')}\n`);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new StartupError(
        `${this.folder} can't be written (${code}): set TMPDIR to a folder with more room.`,
      );
    }
    [part.held, part.heldSize] = [[], 0];
  }

  async *parts(): AsyncGenerator<SpoolPart> {
    for (const part of this.#parts) {
      const { size } = part;
      if (size > 0) yield { size, lines: () => linesOf(part) };
      part.held = [];
      await part.file?.close();
      delete part.file;
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

/** Not readline: it also divides at U+2028, which JSON may have. */
async function* linesOf({ held, file }: Part): AsyncGenerator<string> {
  const options = { start: 0, encoding: 'utf8', highWaterMark: READ_BYTES, autoClose: false } as const;
  let rest = '';
  for await (const text of file?.createReadStream(options) ?? []) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() as string;
    yield* lines;
  }
  yield* held;
}
