// Names of keys on the disk, in parts that each fit into memory. SCAN may give a name twice, and the keys of a profile in any
// order: a part has each name once, and all those of a profile.

import { createHash } from 'node:crypto';
import { appendFile, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** 100 million names are 100 MB in each. */
const PARTS = 64;
/** Bytes of a part that are held back. */
const HELD = 64 * 1024;

export class NameSpool {
  readonly #folder: string;
  readonly #held: string[] = Array.from({ length: PARTS }, () => '');

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @param owner names of one owner are in one part @throws the disk's error */
  async add(owner: string, name: string): Promise<void> {
    const part = createHash('md5').update(owner).digest().readUInt8() % PARTS;
    this.#held[part] += `${name}\n`;
    if ((this.#held[part] as string).length > HELD) await this.#write(part);
  }

  /** Each part once, and it is gone from the disk. @throws the disk's error */
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
