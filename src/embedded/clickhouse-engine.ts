// ClickHouse as a server has it, over chDB:
//
//   request ─▶ slot ─▶ statement judged ─▶ connection with its role and settings ─▶ insert | stream | whole result
//           ─▶ connection closed
//
// chDB's calls run on libuv's threads (UV_THREADPOOL_SIZE, set where the process is started). Reads and
// inserts have places of their own among them, so that no number of long SELECTs keeps an insert waiting.

import type { Chdb, ChdbConnection, ChdbStream } from './chdb.js';
import { BodyFiles } from './clickhouse-body-files.js';
import { ClickHouseConnections, type Lease, literal, type Scope } from './clickhouse-connections.js';
import { ClickHouseError } from './clickhouse-errors.js';
import { judge } from './clickhouse-statement.js';
import { Slots } from './slots.js';

/** Threads that the process needs: every place below, and one for gzip. */
export const ENGINE_THREADS = 12;
const READS = 7;
const INSERTS = 4;

/** Longest that the start of a stream may keep the event loop waiting, about. */
const QUICK_START_S = 0.1;

const NOT_ONE_STATEMENT =
  'Syntax error (Multi-statements are not allowed; data that follow a statement have no empty lines).';
const NO_DATA_TO_INSERT = 108;
/** A whole head of an insert, so that what follows can only be its data. */
const PLAIN_INSERT = /^\s*insert\s+into\s+(table\s+)?[\w.`]+\s*(\([\w\s,`]*\)\s*)?format\s+\w+\s*$/i;
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
  #tableFunctions: Promise<ReadonlySet<string>> | undefined;

  /**
   * @param access the argument of chDB that names users and grants
   * @throws where another process has the folder, or it can't be opened
   */
  constructor(chdb: Chdb, dir: string, access: string) {
    this.#chdb = chdb;
    this.#connections = new ClickHouseConnections(chdb, dir, access);
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
    const lease = await this.#lease(this.#reads, scope, () => this.#judge(scope, sql));
    const { connection } = lease;
    try {
      if (stream && (await this.#startsQuickly(scope, sql))) {
        // Asked for the first chunk before anything is answered, so that most errors can be told by status.
        const chunks = this.#fetch(lease, this.#chdb.StreamQuery(connection, sql, format));
        const first = await chunks.next();
        return { chunks: first.done ? none() : rest(first.value, chunks), rows: 0, bytes: 0 };
      }
      const result = await this.#chdb.QueryAsyncConnection(connection, sql, format);
      lease.release();
      return { chunks: once(result.bytes), rows: result.rowsRead, bytes: result.bytesRead };
    } catch (error) {
      lease.release();
      throw ClickHouseError.from(error);
    }
  }

  /**
   * Runs `INSERT …` whose text is `sql`, a line break and `data`, which may come in parts. Once this has
   * resolved, a kill -9 of the process no longer loses it.
   * @throws ClickHouseError
   */
  async insert(scope: Scope, sql: string, data: readonly Buffer[]): Promise<{ rows: number; bytes: number }> {
    const isPlain = PLAIN_INSERT.test(sql);
    const { connection, release } = await this.#lease(this.#inserts, scope, async () => {
      if (!isPlain) await this.#judge(scope, `${sql}\n${Buffer.concat(data)}`);
    });
    try {
      const read = await this.#insertFile(connection, scope, sql, data);
      if (read !== undefined) return { rows: read.rowsRead, bytes: read.bytesRead };
      const body = Buffer.concat(data);
      // To chDB data in a text end at an empty line, and what follows is a statement of its own.
      const { statementCount } = await this.#chdb.DurableClassifyAsync(
        connection,
        `${sql}\n${body}`,
        'default',
      );
      if (statementCount !== 1) throw ClickHouseError.of('SYNTAX_ERROR', NOT_ONE_STATEMENT);
      const result = await this.#chdb.InsertRawAsyncConnection(connection, sql, body, false);
      return { rows: result.rowsWritten, bytes: result.bytesWritten };
    } catch (error) {
      const told = ClickHouseError.from(error);
      if (told.code === NO_DATA_TO_INSERT) return { rows: 0, bytes: 0 }; // a server takes no rows for an answer
      throw told;
    } finally {
      release();
    }
  }

  /** undefined where the insert has to go the usual way. */
  async #insertFile(connection: ChdbConnection, { settings }: Scope, sql: string, data: readonly Buffer[]) {
    const asked = settings.findLast(([name]) => name === 'max_insert_block_size')?.[1];
    return await this.#bodies.insert(sql, data, asked ?? INSERT_BLOCK_ROWS, (fromFile) =>
      this.#chdb.QueryAsyncConnection(connection, fromFile, 'TabSeparated'),
    );
  }

  /** Call when no request is left. */
  close(): void {
    this.#connections.close();
  }

  /** @throws ClickHouseError where the role may not run it, or it is no statement. */
  async #judge({ role }: Scope, sql: string): Promise<void> {
    this.#tableFunctions ??= this.column('SELECT lower(name) FROM system.table_functions').then(
      (all) => new Set(all),
    );
    const tableFunctions = await this.#tableFunctions;
    if (sql.includes('\0')) throw ClickHouseError.of('SYNTAX_ERROR', 'Syntax error: a zero byte.');
    judge(await this.#canonical(sql), role, tableFunctions);
  }

  async #canonical(sql: string): Promise<string> {
    try {
      return await this.#connections.ask(`SELECT formatQuerySingleLine(${literal(sql)})`);
    } catch (error) {
      // As if the statement itself had been run.
      const { message } = error as Error;
      throw new Error(
        message.replace(/: In scope SELECT formatQuerySingleLine\([\s\S]*\. \((\w+)\)$/, '. ($1)'),
      );
    }
  }

  async #lease(slots: Slots, scope: Scope, check: () => Promise<void>): Promise<Lease> {
    const giveBack = await slots.take();
    try {
      await check();
      const { connection, release } = await this.#connections.lease(scope);
      let held = true;
      return {
        connection,
        release: () => {
          release();
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
   * in which no other client is answered. So the plan is made elsewhere first, under a time limit.
   */
  async #startsQuickly(scope: Scope, sql: string): Promise<boolean> {
    const settings = [...scope.settings, ['max_execution_time', String(QUICK_START_S)] as const];
    try {
      const { connection, release } = await this.#connections.lease({
        ...scope,
        settings,
        readonly: scope.readonly || 2,
      });
      try {
        await this.#chdb.QueryAsyncConnection(connection, `EXPLAIN PIPELINE ${sql}`, 'TabSeparated');
        return true;
      } finally {
        release();
      }
    } catch {
      return false; // late, not a SELECT, or wrong: running it whole will tell
    }
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
      lease.release();
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
    await chunks.return(undefined); // also where the client does not want the rest
  }
}
