// ClickHouse as a server has it, over chDB:
//
//   request ─▶ slot ─▶ connection with its settings ─▶ insert | stream | whole result ─▶ connection closed
//
// chDB's calls run on libuv's threads (UV_THREADPOOL_SIZE, set where the process is started). Reads and
// inserts have places of their own among them, so that no number of long SELECTs keeps an insert waiting.

import type { Chdb, ChdbConnection, ChdbStream } from './chdb.js';
import { BodyFiles } from './clickhouse-body-files.js';
import { ClickHouseConnections, type Lease, literal, type Scope } from './clickhouse-connections.js';
import { ClickHouseError } from './clickhouse-errors.js';
import { Slots } from './slots.js';

/** Threads that the process needs: every place below, and one for gzip. */
export const ENGINE_THREADS = 12;
const READS = 7;
const INSERTS = 4;

/** Longest that the start of a stream may keep the event loop waiting, about. */
const QUICK_START_S = 0.1;

const NO_DATA_TO_INSERT = 108;
/** ClickHouse's default of max_insert_block_size. */
const INSERT_BLOCK_ROWS = '1048449';

export interface Result {
  readonly chunks: AsyncIterable<Buffer>;
  /** Rows and bytes; 0 while it still streams. */
  readonly rows: number;
  readonly bytes: number;
}

export class ClickHouseEngine {
  readonly #chdb: Chdb;
  readonly #connections: ClickHouseConnections;
  readonly #bodies: BodyFiles;
  readonly #reads = new Slots(READS);
  readonly #inserts = new Slots(INSERTS);

  /** @throws where another process has the folder, or it can't be opened. */
  constructor(chdb: Chdb, dir: string) {
    this.#chdb = chdb;
    this.#connections = new ClickHouseConnections(chdb, dir);
    this.#bodies = new BodyFiles(dir); // the folder is ours by now
  }

  /** Runs a statement of our own and answers its one column. */
  async column(sql: string): Promise<string[]> {
    const { bytes } = await this.#chdb.QueryAsyncConnection(this.#connections.base, sql, 'TabSeparated');
    return bytes.toString().split('\n').slice(0, -1);
  }

  /**
   * Runs any statement but an INSERT with data. With `stream`, a SELECT's chunks come as they are made where
   * that can be had: for formats whose chunks make the document when put together.
   * @throws ClickHouseError, also out of `chunks`.
   */
  async query(scope: Scope, sql: string, format: string, stream: boolean): Promise<Result> {
    const lease = await this.#lease(this.#reads, scope);
    const { connection } = lease;
    try {
      const { statementCount } = await this.#chdb.DurableClassifyAsync(connection, sql, 'default');
      if (statementCount > 1) {
        throw ClickHouseError.of('SYNTAX_ERROR', 'Syntax error (Multi-statements are not allowed).');
      }
      if (stream && (await this.#startsQuickly(lease, scope, sql))) {
        // Asked for the first chunk before anything is answered, so that most errors can be told by status.
        const chunks = this.#fetch(lease, this.#chdb.StreamQuery(connection, sql, format));
        const first = await chunks.next();
        return { chunks: first.done ? none() : rest(first.value, chunks), rows: 0, bytes: 0 };
      }
      const result = await this.#chdb.QueryAsyncConnection(connection, sql, format);
      await lease.release();
      return { chunks: once(result.bytes), rows: result.rowsRead, bytes: result.bytesRead };
    } catch (error) {
      await lease.release();
      throw ClickHouseError.from(error);
    }
  }

  /**
   * Runs `INSERT …` whose text is `sql`, a line break and `data`, which may come in parts. Once this has
   * resolved, a kill -9 of the process no longer loses it.
   * @throws ClickHouseError
   */
  async insert(scope: Scope, sql: string, data: readonly Buffer[]): Promise<{ rows: number; bytes: number }> {
    const { connection, release } = await this.#lease(this.#inserts, scope);
    try {
      const read = await this.#insertFile(connection, scope, sql, data);
      if (read !== undefined) return { rows: read.rowsRead, bytes: read.bytesRead };
      const result = await this.#chdb.InsertRawAsyncConnection(connection, sql, Buffer.concat(data), false);
      return { rows: result.rowsWritten, bytes: result.bytesWritten };
    } catch (error) {
      const told = ClickHouseError.from(error);
      if (told.code === NO_DATA_TO_INSERT) return { rows: 0, bytes: 0 }; // a server takes no rows for an answer
      throw told;
    } finally {
      await release();
    }
  }

  /** undefined where the insert has to go the usual way. */
  async #insertFile(
    connection: ChdbConnection,
    { settings, session }: Scope,
    sql: string,
    data: readonly Buffer[],
  ) {
    if (session) return undefined; // it may have a block size of its own
    const asked = settings.findLast(([name]) => name === 'max_insert_block_size')?.[1];
    return await this.#bodies.insert(sql, data, asked ?? INSERT_BLOCK_ROWS, (fromFile) =>
      this.#chdb.QueryAsyncConnection(connection, fromFile, 'TabSeparated'),
    );
  }

  closeSession(id: string): void {
    this.#connections.closeSession(id);
  }

  /** Call when no request is left. */
  close(): void {
    this.#connections.close();
  }

  async #lease(slots: Slots, scope: Scope): Promise<Lease> {
    const giveBack = await slots.take();
    try {
      const { connection, release } = await this.#connections.lease(scope);
      let held = true;
      return {
        connection,
        release: async () => {
          await release();
          if (held) giveBack();
          held = false;
        },
      };
    } catch (error) {
      giveBack();
      throw ClickHouseError.from(error);
    }
  }

  /**
   * Whether this is a SELECT that can be planned in no time. chDB plans a stream on the thread that asks,
   * which is the event loop's, and planning runs scalar subqueries and what is IN a key to their end: minutes
   * in which nobody else is answered. So the plan is made elsewhere first, under a time limit.
   */
  async #startsQuickly({ connection }: Lease, { settings, session }: Scope, sql: string): Promise<boolean> {
    if (session) return false; // its settings are not ours to change
    const succeeds = (statement: string) =>
      this.#chdb.QueryAsyncConnection(connection, statement, 'TabSeparated').then(
        () => true,
        () => false,
      );
    const limit = settings.findLast(([name]) => name === 'max_execution_time')?.[1];
    if (!(await succeeds(`SET max_execution_time = ${QUICK_START_S}`))) return false; // readonly = 1
    // Late, not a SELECT, or wrong: running it whole will tell.
    const quick = await succeeds(`EXPLAIN PIPELINE ${sql}`);
    await succeeds(`SET max_execution_time = ${limit === undefined ? 'DEFAULT' : literal(limit)}`);
    return quick;
  }

  async *#fetch(lease: Lease, stream: ChdbStream): AsyncGenerator<Buffer, void> {
    try {
      for (;;) {
        const { bytes, done } = await this.#chdb.StreamFetch(stream);
        if (done) return;
        yield bytes;
      }
    } catch (error) {
      throw ClickHouseError.from(error);
    } finally {
      this.#chdb.StreamCancel(stream);
      await lease.release();
    }
  }
}

async function* none(): AsyncGenerator<Buffer> {}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  if (bytes.length > 0) yield bytes;
}

async function* rest(first: Buffer, chunks: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield first;
    yield* chunks;
  } finally {
    await chunks.return(undefined); // also where nobody wants the rest
  }
}
