// Spools key names to disk, in parts that fit into memory. A part has all names of an owner, once each.

import { createHash } from 'node:crypto';
import { appendFile, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** With 100 million names a part has about 100 MB. */
const PARTS = 64;
/** Buffered characters of a part. */
const HELD = 64 * 1024;

export class NameSpool {
  readonly #folder: string;
  readonly #held: string[] = Array.from({ length: PARTS }, () => '');

  constructor(folder: string) {
    this.#folder = folder;
  }

  async add(owner: string, name: string): Promise<void> {
    const part = createHash('md5').update(owner).digest().readUInt8() % PARTS;
    this.#held[part] += `${name}\n`;
    if ((this.#held[part] as string).length > HELD) await this.#write(part);
  }

  /** Deletes each part from the disk. */
  async *parts(): AsyncGenerator<ReadonlySet<string>> {
    for (let part = 0; part < PARTS; part++) {
      await this.#write(part);
      const path = this.#pathOf(part);
      const names = (await readFile(path, 'utf8')).split('\n').slice(0, -1);
      await rm(path);
      yield new Set(names);
    }
  }

  async #write(part: number): Promise<void> {
    const text = this.#held[part] as string;
    this.#held[part] = '';
    await appendFile(this.#pathOf(part), text, { mode: 0o600 });
  }

  #pathOf(part: number): string {
    return join(this.#folder, `names-${part}`);
  }
}
