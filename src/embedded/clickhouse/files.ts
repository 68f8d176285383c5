// What passes between a request and ClickHouse: an insert's data as a file, a SELECT's rows through a named pipe.
//
// A file, because chDB cuts a statement's text into SQL's tokens: 6 MB of JSON in the text cost 65 ms of CPU, in a
// file 16 (a single row costs 0.6 ms more). Nothing in a file can be taken for SQL either.
// A pipe, because INTO OUTFILE writes rows as they are made, as one document in any format, on ClickHouse's threads.
// chDB's own streaming plans the query on the event loop's thread and has a document for every block.

import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, rmSync } from 'node:fs';
import { type FileHandle, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What a pipe of Linux holds. */
const READ_BYTES = 64 * 1024;

export class ClickHouseFiles {
  readonly #bodies: string;
  readonly #free: Pipe[] = [];
  #count = 0;

  /**
   * @param dir the folder of the data; only its owner may do this: files of an earlier process go
   * @param pipes how many statements run at once
   */
  constructor(dir: string, pipes: number) {
    // chDB reads a file's path as a pattern, and the folder may have any name: this one of the same folder has no wildcards.
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

  /** Has `use` run while the data are a file. @throws what `use` throws, without the file's path */
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

  /** Call `end` and `close`. */
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

  /** @param free where it puts itself when it is closed */
  constructor(path: string, free: Pipe[]) {
    this.path = path;
    this.#free = free;
  }

  async open(): Promise<void> {
    // Held open at both ends: without a writer the reader is at the end at once, without a reader ClickHouse waits.
    this.#ends = openSync(this.path, constants.O_RDWR);
    this.#reader = await open(this.path);
  }

  /** What is written, until `end`. */
  async *chunks(): AsyncGenerator<Buffer, void> {
    for (;;) {
      const bytes = (await this.#reader?.read(this.#buffer))?.bytesRead ?? 0;
      if (bytes === 0) return;
      yield Buffer.from(this.#buffer.subarray(0, bytes));
    }
  }

  /** Call once, when the statement has ended: what it wrote can still be read, and then there is no more. */
  end(): void {
    closeSync(this.#ends);
  }

  /** Reads what is left, so that ClickHouse never waits for a reader, until `end`; then the pipe is free. */
  async close(): Promise<void> {
    for await (const _ of this.chunks());
    await this.#reader?.close();
    this.#free.push(this);
  }
}
