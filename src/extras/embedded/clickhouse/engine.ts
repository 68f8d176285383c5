// Runs statements in chDB as a ClickHouse server would:
//
//   request ─▶ wait for a slot ─▶ judge statement ─▶ connection with role and settings ─▶ run ─▶ answer ─▶ close
//
// Each user has slots of its own, and so have inserts: long SELECTs of one user don't delay another.

import { availableParallelism } from 'node:os';
import { Readable } from 'node:stream';
import pLimit from 'p-limit';
import type { Chdb, ChdbConnection, ChdbResult } from './chdb.js';
import { type Bounds, ClickHouseConnections, type Scope } from './connections.js';
import { ClickHouseError } from './errors.js';
import { ClickHouseFiles } from './files.js';
import { REFUSED_FUNCTIONS } from './functions.js';
import { fromFile, intoFile, type Judged, judge, literal, type Names, type Statement } from './statement.js';
import { roleOf } from './users.js';

/** Limits of concurrent statements. A process has one engine. */
const SLOTS = { analyst: pLimit(3), dashboard: pLimit(3), service: pLimit(4), inserts: pLimit(4) };
const STATEMENTS = Object.values(SLOTS).reduce((sum, { concurrency }) => sum + concurrency, 0);
/** Per statement, chDB blocks one thread, and one reads the pipe. Two more are for KILL QUERY, gzip and files. */
export const ENGINE_THREADS = 2 * STATEMENTS + 2;

/** Share of ClickHouse's memory for a statement of analyst or dashboard. Six of them leave a quarter to the service. */
const MEMORY_SHARE = 1 / 8;
const ANALYST_BOUNDS: Bounds = {
  max_threads: availableParallelism(),
  max_temporary_data_on_disk_size_for_query: 4 * 1024 ** 3,
};

/** ClickHouse's default of max_insert_block_size. */
const INSERT_BLOCK_ROWS = '1048449';

/** A smaller result is sent once it is complete, so that a late error still sets the status. */
const HELD_BYTES = 256 * 1024;

export interface Query {
  readonly scope: Scope;
  readonly statement: Statement;
  readonly format: string;
}

export interface Result {
  readonly format: string;
  readonly rows: AsyncIterable<Buffer>;
  readonly errorOf: (error: unknown) => ClickHouseError;
  /** Rows and bytes read, or, by an insert, written. Zeros while the statement runs. */
  readonly read: Pick<ChdbResult, 'rowsRead' | 'bytesRead'>;
  /** Aborts at the time limit or when the client disconnects. */
  readonly ends: AbortSignal;
}

const NOTHING_YET: Result['read'] = { rowsRead: 0, bytesRead: 0 };

type AnswerRows = (rows: Result['rows'], read: Result['read']) => Promise<void>;

export class ClickHouseEngine {
  readonly #chdb: Chdb;
  readonly #connections: ClickHouseConnections;
  readonly #files: ClickHouseFiles;
  readonly #analystSeconds: number;
  #names: Names = { tableFunctions: new Set(), refusedFunctions: new Set() };
  #analystBounds: Bounds = {};

  constructor(chdb: Chdb, dir: string, access: string, analystSeconds: number) {
    this.#chdb = chdb;
    this.#analystSeconds = analystSeconds;
    this.#connections = new ClickHouseConnections(chdb, dir, access);
    this.#files = new ClickHouseFiles(dir, STATEMENTS);
  }

  async prepare(): Promise<void> {
    this.#names = {
      tableFunctions: new Set(await this.column('SELECT lower(name) FROM system.table_functions')),
      refusedFunctions: new Set(await this.column(REFUSED_FUNCTIONS)),
    };
    const [bytes] = await this.column(
      "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'",
    );
    this.#analystBounds = {
      ...ANALYST_BOUNDS,
      max_memory_usage: Math.floor(Number(bytes) * MEMORY_SHARE),
    };
  }

  async column(sql: string): Promise<string[]> {
    return (await this.#connections.ask(sql)).split('\n');
  }

  /**
   * Runs a statement. Once an insert is answered, its rows survive kill -9 of the process.
   * @param gone aborts when the client disconnects, which cancels only read-only statements
   * @throws ClickHouseError, and errors of `answer`
   */
  async run(query: Query, gone: AbortSignal, answer: (result: Result) => Promise<void>): Promise<void> {
    const { scope, statement } = query;
    const isInsert = statement.isInsert && scope.user === 'service';
    await SLOTS[isInsert ? 'inserts' : scope.user](async () => {
      gone.throwIfAborted();
      const isLimited = roleOf(scope.user) === 'analyst';
      const limit = isLimited ? AbortSignal.timeout(this.#analystSeconds * 1_000) : undefined;
      const ends = limit ? AbortSignal.any([gone, limit]) : gone;
      const errorOf = (error: unknown) =>
        limit?.aborted ? this.#timeout(scope) : ClickHouseError.from(error);
      try {
        const judged = await this.#judge(query);
        const format = judged.format ?? query.format;
        await this.#connections.forRequest(
          statement.data ? { ...scope, settings: forData(scope.settings) } : scope,
          isLimited ? this.#analystBounds : {},
          judged.onlyReads ? ends : undefined,
          async (connection) => {
            const answerRows = (rows: Result['rows'], read: Result['read']) =>
              answer({ format, rows, read, ends, errorOf });
            if (statement.data) await this.#insert(connection, judged.sql, statement.data.bytes, answerRows);
            else await this.#stream(connection, judged.sql, format, answerRows);
          },
        );
      } catch (error) {
        throw errorOf(error);
      }
    });
  }

  close(): void {
    this.#connections.close();
  }

  async #judge({ scope, statement }: Query): Promise<Judged> {
    const by = { role: roleOf(scope.user), database: scope.database };
    const judged = judge(await this.#canonical(statement.sql), statement, by, this.#names);
    if (scope.readonly === 0 || judged.onlyReads) return judged;
    throw ClickHouseError.of('READONLY', 'Cannot execute query in readonly mode.');
  }

  async #canonical(sql: string): Promise<string> {
    if (sql.includes('\0')) throw ClickHouseError.of('SYNTAX_ERROR', 'Syntax error: a zero byte.');
    try {
      return await this.#connections.ask(`SELECT formatQuerySingleLine(${literal(sql)})`);
    } catch (error) {
      const { message } = error as Error;
      throw new Error(
        message.replace(/: In scope SELECT formatQuerySingleLine\([\s\S]*\. \((\w+)\)$/, '. ($1)'),
      );
    }
  }

  async #insert(connection: ChdbConnection, sql: string, data: Buffer, answer: AnswerRows): Promise<void> {
    const read = await this.#files.withBody(data, (path) =>
      this.#chdb.QueryAsyncConnection(connection, fromFile(sql, path), 'TSV'),
    );
    await answer(Readable.from([]), read);
  }

  /** Calls `answer` at the first rows, or at the end if there are none. */
  async #stream(connection: ChdbConnection, sql: string, format: string, answer: AnswerRows): Promise<void> {
    const pipe = await this.#files.openPipe();
    const run = async () => {
      try {
        return await this.#chdb.QueryAsyncConnection(connection, intoFile(sql, pipe.path), format);
      } finally {
        pipe.end();
      }
    };
    const ended = run();
    const read = ended.catch(() => NOTHING_YET); // `rows` throws the error
    try {
      const rows = heldBack(pipe.chunks(), ended);
      const first = await rows.next();
      await answer(from(first, rows), await Promise.race([read, NOTHING_YET]));
    } finally {
      await pipe.close(); // Waits for the statement, before which its connection must not be closed.
    }
  }

  #timeout({ user }: Scope): ClickHouseError {
    return ClickHouseError.of(
      'TIMEOUT_EXCEEDED',
      `Timeout exceeded: a statement of ${user} may run ${this.#analystSeconds} s; see ANALYST_MAX_SECONDS.`,
    );
  }
}

/** Clients set `max_insert_block_size`, but chDB uses `max_block_size` for data from a file. */
function forData(settings: Scope['settings']): Scope['settings'] {
  return new Map([
    ...settings,
    ['max_block_size', settings.get('max_insert_block_size') ?? INSERT_BLOCK_ROWS],
  ]);
}

async function* heldBack(
  chunks: AsyncIterable<Buffer>,
  ended: Promise<ChdbResult>,
): AsyncGenerator<Buffer, void> {
  const held: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    held.push(chunk);
    bytes += chunk.length;
    if (bytes >= HELD_BYTES) yield* held.splice(0);
  }
  const answer = (await ended).bytes; // Only SELECT writes to the pipe.
  yield* held;
  if (answer.length > 0) yield answer;
}

async function* from(first: IteratorResult<Buffer, void>, rest: AsyncIterable<Buffer>) {
  if (first.done) return;
  yield first.value;
  yield* rest;
}
