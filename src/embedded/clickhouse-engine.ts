// ClickHouse as a server has it, over chDB:
//
//   request ─▶ slot ─▶ statement judged ─▶ connection with its role and settings ─▶ insert | stream | whole result
//           ─▶ connection closed
//
// chDB's calls run on libuv's threads (UV_THREADPOOL_SIZE, set where the process is started). Each user and the
// inserts have places of their own among them, so that no number of long SELECTs keeps the others waiting. A statement
// that only reads ends with its client, and the analyst's also at a limit of time and one of memory.

import { availableParallelism } from 'node:os';
import type { Chdb, ChdbConnection, ChdbStream } from './chdb.js';
import { BodyFiles } from './clickhouse-body-files.js';
import {
  type Bounds,
  ClickHouseConnections,
  type Lease,
  literal,
  type Scope,
} from './clickhouse-connections.js';
import { ClickHouseError } from './clickhouse-errors.js';
import { headLength } from './clickhouse-heads.js';
import { judge } from './clickhouse-statement.js';
import { roleOf, type User } from './clickhouse-users.js';
import { Slots } from './slots.js';

/** Statements at a time; those of the service are its reads, and changes that are no insert. */
const PLACES = { analyst: 3, dashboard: 3, service: 4 } satisfies Record<User, number>;
const INSERTS = 4;
/** Threads that the process needs: every place above, one to kill statements, and one for gzip and files. */
export const ENGINE_THREADS = PLACES.analyst + PLACES.dashboard + PLACES.service + INSERTS + 2;

/** What one statement of the analyst or the dashboard may have of ClickHouse's memory: a quarter is left to the service. */
const MEMORY_SHARE = 1 / 8;
/** The most that such a statement may set these to; its memory is bounded as well. */
const ANALYST_BOUNDS: Bounds = {
  max_threads: availableParallelism(),
  max_temporary_data_on_disk_size_for_query: 4 * 1024 ** 3,
};

/** Longest that the start of a stream may keep the event loop waiting, about. */
const QUICK_START_S = 0.1;

const NOT_ONE_STATEMENT =
  'Syntax error (Multi-statements are not allowed; data that follow a statement have no empty lines).';
const NO_DATA_TO_INSERT = 108;
/** A whole head of an insert, so that what follows can only be its data. */
const PLAIN_INSERT = /^\s*insert\s+into\s+(table\s+)?[\w.`]+\s*(\([\w\s,`]*\)\s*)?format\s+\w+\s*$/i;
/** ClickHouse's default of max_insert_block_size. */
const INSERT_BLOCK_ROWS = '1048449';

/** A result that does not stream is held in memory, which ClickHouse does not count for its statement. */
const WHOLE_BOUNDS: Bounds = { max_result_rows: 1_000_000, max_result_bytes: 128 * 1024 ** 2 };

const NEVER = new AbortController().signal;

const isLimited = ({ user }: Scope) => roleOf(user) === 'analyst';

/** A statement that has its place and its connection. */
interface Statement extends Lease {
  /** Aborts when it has to end. */
  readonly ends: AbortSignal;
  /** The error that a caller is told. */
  readonly told: (error: unknown) => ClickHouseError;
}

export interface Result {
  readonly chunks: AsyncIterable<Buffer>;
  /** Aborts when the statement that still makes chunks has to end, also where its client does not read them. */
  readonly ends?: AbortSignal;
  /** Rows and bytes; 0 while it still streams. */
  readonly rows: number;
  readonly bytes: number;
}

export class ClickHouseEngine {
  readonly #chdb: Chdb;
  readonly #connections: ClickHouseConnections;
  readonly #bodies: BodyFiles;
  readonly #reads = {
    analyst: new Slots(PLACES.analyst),
    dashboard: new Slots(PLACES.dashboard),
    service: new Slots(PLACES.service),
  };
  readonly #inserts = new Slots(INSERTS);
  readonly #analystSeconds: number;
  #tableFunctions: ReadonlySet<string> = new Set();
  #analystBounds: Bounds = {};

  /**
   * @param access the argument of chDB that names users and grants
   * @param analystSeconds that a statement of the analyst or the dashboard may run
   * @throws where another process has the folder, or it can't be opened
   */
  constructor(chdb: Chdb, dir: string, access: string, analystSeconds: number) {
    this.#chdb = chdb;
    this.#analystSeconds = analystSeconds;
    this.#connections = new ClickHouseConnections(chdb, dir, access);
    this.#bodies = new BodyFiles(dir); // the folder is ours by now
  }

  /** Before the first request: asks what statements are judged and bounded by. */
  async prepare(): Promise<void> {
    this.#tableFunctions = new Set(await this.column('SELECT lower(name) FROM system.table_functions'));
    const [bytes] = await this.column(
      "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'",
    );
    this.#analystBounds = {
      ...ANALYST_BOUNDS,
      max_memory_usage: Math.floor(Number(bytes) * MEMORY_SHARE),
    };
  }

  /** Runs a statement of our own and answers its one column. */
  async column(sql: string): Promise<string[]> {
    const { bytes } = await this.#chdb.QueryAsyncConnection(this.#connections.base, sql, 'TabSeparated');
    return bytes.toString().split('\n').slice(0, -1);
  }

  /**
   * Runs any statement but an INSERT with data. With `stream`, a SELECT's chunks come as they are made where
   * that can be had: for formats whose chunks make the document when put together.
   * @param left aborts when the client has gone, which ends a statement that only reads
   * @throws ClickHouseError, also out of `chunks`.
   */
  async query(
    scope: Scope,
    sql: string,
    format: string,
    stream: boolean,
    left: AbortSignal,
  ): Promise<Result> {
    let streams = false;
    const check = async (ends: AbortSignal) => {
      const onlyReads = await this.#judge(scope, sql);
      streams = stream && (await this.#startsQuickly(scope, sql, ends));
      return { onlyReads, bounds: streams ? {} : WHOLE_BOUNDS };
    };
    const statement = await this.#begin(this.#reads[scope.user], scope, check, left);
    const { connection } = statement;
    try {
      if (streams) {
        // Asked for the first chunk before anything is answered, so that most errors can be told by status.
        const chunks = this.#fetch(statement, this.#chdb.StreamQuery(connection, sql, format), format);
        const first = await chunks.next();
        return {
          chunks: first.done ? none() : rest(first.value, chunks),
          ends: statement.ends,
          rows: 0,
          bytes: 0,
        };
      }
      const result = await this.#chdb.QueryAsyncConnection(connection, sql, format);
      statement.release();
      return { chunks: once(result.bytes), rows: result.rowsRead, bytes: result.bytesRead };
    } catch (error) {
      statement.release();
      throw statement.told(error);
    }
  }

  /**
   * Runs `INSERT …` whose text is `sql`, a line break and `data`, which may come in parts. Once this has
   * resolved, a kill -9 of the process no longer loses it.
   * @throws ClickHouseError
   */
  async insert(scope: Scope, sql: string, data: readonly Buffer[]): Promise<{ rows: number; bytes: number }> {
    const isPlain = PLAIN_INSERT.test(sql);
    const { connection, release } = await this.#begin(this.#inserts, scope, async () => {
      if (!isPlain) await this.#judge(scope, `${sql}\n${Buffer.concat(data)}`);
      return { onlyReads: false, bounds: {} };
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

  /**
   * @returns whether it only reads
   * @throws ClickHouseError where the role may not run it, or it is no statement.
   */
  async #judge({ user }: Scope, sql: string): Promise<boolean> {
    if (sql.includes('\0')) throw ClickHouseError.of('SYNTAX_ERROR', 'Syntax error: a zero byte.');
    return judge(await this.#canonical(sql), roleOf(user), this.#tableFunctions);
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

  /**
   * Waits for a place and sets up a connection.
   * @param check says whether the statement only reads, and so may be ended, and how it is bounded, where its user is
   * @param left aborts when the client has gone
   */
  async #begin(
    slots: Slots,
    scope: Scope,
    check: (ends: AbortSignal) => Promise<{ onlyReads: boolean; bounds: Bounds }>,
    left = NEVER,
  ): Promise<Statement> {
    const giveBack = await slots.take(left);
    const limits = isLimited(scope) ? [AbortSignal.timeout(this.#analystSeconds * 1_000)] : [];
    const told = (error: unknown) =>
      limits.some(({ aborted }) => aborted)
        ? ClickHouseError.of(
            'TIMEOUT_EXCEEDED',
            `Timeout exceeded: a statement of ${scope.user} may run ${this.#analystSeconds} s; see ANALYST_MAX_SECONDS.`,
          )
        : ClickHouseError.from(error);
    try {
      const limit = AbortSignal.any([left, ...limits]);
      const { onlyReads, bounds } = await check(limit);
      const ends = onlyReads ? limit : NEVER;
      const { connection, release } = await this.#connections.lease(
        scope,
        this.#boundsOf(scope, bounds),
        ends,
      );
      let held = true;
      return {
        connection,
        ends,
        told,
        release: () => {
          release();
          if (held) giveBack();
          held = false;
        },
      };
    } catch (error) {
      giveBack();
      throw told(error);
    }
  }

  #boundsOf(scope: Scope, more: Bounds): Bounds {
    return isLimited(scope) ? { ...this.#analystBounds, ...more } : {};
  }

  /**
   * Whether this is a SELECT that can be planned in no time. chDB plans a stream on the thread that asks,
   * which is the event loop's, and planning runs scalar subqueries and what is IN a key to their end: minutes
   * in which no other client is answered. So the plan is made elsewhere first, under a time limit.
   */
  async #startsQuickly(scope: Scope, sql: string, ends: AbortSignal): Promise<boolean> {
    const settings = [...scope.settings, ['max_execution_time', String(QUICK_START_S)] as const];
    try {
      const { connection, release } = await this.#connections.lease(
        { ...scope, settings, readonly: scope.readonly || 2 },
        this.#boundsOf(scope, {}),
        ends,
      );
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

  async *#fetch(statement: Statement, stream: ChdbStream, format: string): AsyncGenerator<Buffer, void> {
    try {
      for (let isFirst = true; ; isFirst = false) {
        const { bytes, done } = await this.#chdb.StreamFetch(stream);
        if (done) return;
        yield isFirst ? bytes : bytes.subarray(headLength(format, bytes));
      }
    } catch (error) {
      throw statement.told(error);
    } finally {
      this.#chdb.StreamCancel(stream);
      statement.release();
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
