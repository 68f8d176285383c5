// Large inserts go to chDB as files. What stands in a statement's text is cut into SQL's tokens before its data
// are read as data, and a flusher's 9 MB of JSON are millions of them: a quarter of the CPU time of an insert.
// `INSERT … FROM INFILE` reads the same bytes by the same format, as one block where the settings ask for that,
// and a deduplication token counts as ever.
//
// It is a shortcut and nothing else: what is small, what is not plain JSONEachRow or TabSeparated into a table, and
// what could not be written or found goes the usual way. chDB takes a file that it does not find for one without rows,
// and reads a path as a pattern: hence the look at the rows, and at the folder's name.

import { mkdirSync, rmSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';

const FOLDER = 'bodies';
/** Below this, a file costs more than it saves. */
const FILE_BYTES = 64 * 1024;
/** Nothing in it that chDB reads as a pattern, an archive or the end of the text. */
const PLAIN_PATH = /^[\w./ -]+$/;
const INTO_TABLE =
  /^\s*(insert\s+into\s+(?:table\s+)?[\w.`]+(?:\s*\([\w\s,`]*\))?)\s+(format\s+(?:JSONEachRow|TabSeparated))\s*$/i;

export class BodyFiles {
  readonly #dir: string;
  #count = 0;

  /** @param dir the folder of the data; what an earlier process left of its files goes. Only its owner may do this. */
  constructor(dir: string) {
    this.#dir = join(dir, FOLDER);
    rmSync(this.#dir, { recursive: true, force: true });
    mkdirSync(this.#dir, { recursive: true });
  }

  /**
   * Has the insert run on a file of its data.
   * @param sql its text without the data
   * @param blockRows its setting max_insert_block_size, which counts for data in a text only
   * @param run runs a statement without data
   * @returns undefined where nothing was inserted, and the insert has to go the usual way
   * @throws what `run` throws, without the file's name
   */
  async insert<Read extends { readonly rowsRead: number }>(
    sql: string,
    data: readonly Buffer[],
    blockRows: string,
    run: (sql: string) => Promise<Read>,
  ): Promise<Read | undefined> {
    const [, into, format] = INTO_TABLE.exec(sql) ?? [];
    const bytes = data.reduce((sum, part) => sum + part.length, 0);
    if (into === undefined || bytes < FILE_BYTES || !PLAIN_PATH.test(this.#dir) || !/^\d+$/.test(blockRows))
      return undefined;
    const file = join(this.#dir, `${++this.#count}.jsonl`);
    try {
      if (!(await isWritten(file, data, bytes))) return undefined;
      const settings = `SETTINGS max_block_size = ${blockRows}`;
      const read = await run(`${into} FROM INFILE '${file}' COMPRESSION 'none' ${settings} ${format}`);
      return read.rowsRead > 0 ? read : undefined;
    } catch (error) {
      const { message } = error as Error;
      throw new Error(message.replaceAll(file, 'body'));
    } finally {
      await rm(file, { force: true });
    }
  }
}

async function isWritten(file: string, data: readonly Buffer[], bytes: number): Promise<boolean> {
  try {
    const handle = await open(file, 'wx', 0o600);
    try {
      return (await handle.writev(data)).bytesWritten === bytes;
    } finally {
      await handle.close();
    }
  } catch {
    return false;
  }
}
