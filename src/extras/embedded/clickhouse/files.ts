// Passes an insert's data to ClickHouse in a file, and a SELECT's rows back through a named pipe.
//
// chDB would tokenize data in the statement: 6 MB of JSON take 65 ms of CPU, but 16 ms from a file. Nor can
// data in a file be taken for SQL.
//
// INTO OUTFILE streams rows in any format on ClickHouse's threads. chDB's own streaming plans the query on the event
// loop's thread, and writes one document per block.

import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, rmSync } from 'node:fs';
import { type FileHandle, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The capacity of a pipe on Linux. */
const READ_BYTES = 64 * 1024;

export class ClickHouseFiles {
  readonly #bodies: string;
  readonly #free: Pipe[] = [];
  #count = 0;

  /** Removes the files of earlier processes, so the caller must hold the folder's lock. */
  constructor(dir: string, pipes: number) {
    // chDB reads a path as a glob pattern. This alias of the folder has no wildcards.
    const alias = `/proc/self/fd/${openSync(dir, constants.O_DIRECTORY)}`;
    this.#bodies = join(alias, 'bodies');
    const folder = join(alias, 'pipes');
    for (const own of ['bodies', 'pipes']) {
      rmSync(join(dir, own), { recursive: true, force: true });
      mkdirSync(join(dir, own), { recursive: true });
    }
    const names = Array.from({ length: pipes }, (_, i) => String(i));
    execFileSync('mkfifo', names, { cwd: join(dir, 'pipes') });
    for (const name of names) this.#free.push(new Pipe(join(folder, name), this.#free));
  }

  async withBody<T>(data: Buffer, use: (path: string) => Promise<T>): Promise<T> {
    const path = join(this.#bodies, String(++this.#count));
    try {
      await writeFile(path, data, { mode: 0o600, flag: 'wx' });
      return await use(path);
    } catch (error) {
      throw new Error((error as Error).message.replaceAll(path, 'body'));
    } finally {
      await rm(path, { force: true });
    }
  }

  async openPipe(): Promise<Pipe> {
    const pipe = this.#free.shift();
    if (pipe === undefined) throw new Error('more statements at once than there are pipes');
    try {
      await pipe.open();
      return pipe;
    } catch (error) {
      this.#free.push(pipe);
      throw error;
    }
  }
}

class Pipe {
  readonly path: string;
  readonly #free: Pipe[];
  readonly #buffer = Buffer.allocUnsafe(READ_BYTES);
  #ends = -1;
  #reader: FileHandle | undefined;

  constructor(path: string, free: Pipe[]) {
    this.path = path;
    this.#free = free;
  }

  async open(): Promise<void> {
    // Without a writer the reader would get end of file, and without a reader ClickHouse would block.
    this.#ends = openSync(this.path, constants.O_RDWR);
    this.#reader = await open(this.path);
  }

  async *chunks(): AsyncGenerator<Buffer, void> {
    for (;;) {
      const bytes = (await this.#reader?.read(this.#buffer))?.bytesRead ?? 0;
      if (bytes === 0) return;
      yield Buffer.from(this.#buffer.subarray(0, bytes));
    }
  }

  /** Gives the reader an end of file. Call once, after the statement. */
  end(): void {
    closeSync(this.#ends);
  }

  /** Waits for `end`, and discards the bytes until then, so that ClickHouse never blocks. */
  async close(): Promise<void> {
    for await (const _ of this.chunks());
    await this.#reader?.close();
    this.#free.push(this);
  }
}
