// ClickHouse as a server has it, over chDB:
//
//   request ─▶ place ─▶ statement judged ─▶ connection with its role and settings ─▶ run ─▶ answered
//           ─▶ connection closed, place free
//
// chDB's calls run on libuv's threads (UV_THREADPOOL_SIZE, set where the process is started). Each user and the
// inserts have places of their own among them, so that no number of long SELECTs keeps the others waiting. A statement
// that only reads ends with its client, and the analyst's also at a limit of time and one of memory.

import { availableParallelism } from 'node:os';
import { Readable } from 'node:stream';
import pLimit from 'p-limit';
import type { Chdb, ChdbConnection, ChdbResult } from './chdb.js';
import { type Bounds, ClickHouseConnections, type Scope } from './connections.js';
import { ClickHouseError } from './errors.js';
import { ClickHouseFiles } from './files.js';
import { FUNCTIONS, refusedFunctions } from './functions.js';
import { fromFile, intoFile, type Judged, judge, literal, type Names, type Statement } from './statement.js';
import { roleOf } from './users.js';

/** Statements at a time; those of the service are its reads, and changes that are no insert. */
const PLACES = { analyst: 3, dashboard: 3, service: 4, inserts: 4 };
const STATEMENTS = Object.values(PLACES).reduce((sum, places) => sum + places);
/** Threads that the process needs: for each statement and the reader of its pipe, to kill one, and for gzip and files. */
export const ENGINE_THREADS = 2 * STATEMENTS + 2;

/** What one statement of the analyst or the dashboard may have of ClickHouse's memory: a quarter is left to the service. */
const MEMORY_SHARE = 1 / 8;
/** The most that such a statement may set these to; its memory is bounded as well. */
const ANALYST_BOUNDS: Bounds = {
  max_threads: availableParallelism(),
  max_temporary_data_on_disk_size_for_query: 4 * 1024 ** 3,
};

/** ClickHouse's default of max_insert_block_size. */
const INSERT_BLOCK_ROWS = '1048449';

/** A result of less is answered when it is whole, so that an error in it has its status. ClickHouse holds back 1 MiB. */
const HELD_BYTES = 256 * 1024;

export interface Query {
  readonly scope: Scope;
  readonly statement: Statement;
  /** Format of the answer, where the statement has none. */
  readonly format: string;
}

export interface Result {
  readonly format: string;
  readonly rows: AsyncIterable<Buffer>;
  /** What `rows` throws, as the client gets it. */
  readonly errorOf: (error: unknown) => ClickHouseError;
  /** What was read, and by an insert written; zeros while there is more to come. */
  readonly read: Pick<ChdbResult, 'rowsRead' | 'bytesRead'>;
  /** Aborts when the statement has to end, also where its client does not read what there is. */
  readonly ends: AbortSignal;
}

const NOTHING_YET: Result['read'] = { rowsRead: 0, bytesRead: 0 };

type AnswerRows = (rows: Result['rows'], read: Result['read']) => Promise<void>;

export class ClickHouseEngine {
  readonly #chdb: Chdb;
  readonly #connections: ClickHouseConnections;
  readonly #files: ClickHouseFiles;
  readonly #places = {
    analyst: pLimit(PLACES.analyst),
    dashboard: pLimit(PLACES.dashboard),
    service: pLimit(PLACES.service),
    inserts: pLimit(PLACES.inserts),
  };
  readonly #analystSeconds: number;
  #names: Names = { tableFunctions: new Set(), refusedFunctions: new Set() };
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
    this.#files = new ClickHouseFiles(dir, STATEMENTS); // the folder is ours by now
  }

  /** Before the first request: asks what statements are judged and bounded by. */
  async prepare(): Promise<void> {
    this.#names = {
      tableFunctions: new Set(await this.column('SELECT lower(name) FROM system.table_functions')),
      refusedFunctions: refusedFunctions(await this.column(FUNCTIONS)),
    };
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
    return (await this.#connections.ask(sql)).split('\n');
  }

  /**
   * Runs a statement, with what it brings along, and has it answered; both in its user's place. Once an insert is
   * answered, a kill -9 of the process no longer loses it.
   * @param gone aborts when the client has gone, which ends a statement that only reads
   * @throws ClickHouseError, and what `answer` throws
   */
  async run(query: Query, gone: AbortSignal, answer: (result: Result) => Promise<void>): Promise<void> {
    const { scope, statement } = query;
    const isInsert = statement.isInsert && scope.user === 'service';
    await this.#places[isInsert ? 'inserts' : scope.user](async () => {
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

  /** Call when no request is left. */
  close(): void {
    this.#connections.close();
  }

  async #judge({ scope, statement }: Query): Promise<Judged> {
    const judged = judge(await this.#canonical(statement.sql), statement, roleOf(scope.user), this.#names);
    if (scope.readonly === 0 || judged.onlyReads) return judged;
    throw ClickHouseError.of('READONLY', 'Cannot execute query in readonly mode.');
  }

  /** @throws where it is no statement, or more than one */
  async #canonical(sql: string): Promise<string> {
    if (sql.includes('\0')) throw ClickHouseError.of('SYNTAX_ERROR', 'Syntax error: a zero byte.');
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

  async #insert(connection: ChdbConnection, sql: string, data: Buffer, answer: AnswerRows): Promise<void> {
    const read = await this.#files.withBody(data, (path) =>
      this.#chdb.QueryAsyncConnection(connection, fromFile(sql, path), 'TSV'),
    );
    await answer(Readable.from([]), read);
  }

  /** Answers with the first rows, or when the statement has ended without an error. */
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
    const known = ended.catch(() => NOTHING_YET); // `rows` throws it
    try {
      const rows = heldBack(pipe.chunks(), ended);
      const first = await rows.next();
      await answer(from(first, rows), await Promise.race([known, NOTHING_YET]));
    } finally {
      await pipe.close(); // when the statement has ended: nothing may run on a connection that is closed
    }
  }

  #timeout({ user }: Scope): ClickHouseError {
    return ClickHouseError.of(
      'TIMEOUT_EXCEEDED',
      `Timeout exceeded: a statement of ${user} may run ${this.#analystSeconds} s; see ANALYST_MAX_SECONDS.`,
    );
  }
}

/** chDB cuts a file into blocks by another setting than the data of a request. */
function forData(settings: Scope['settings']): Scope['settings'] {
  return new Map([
    ...settings,
    ['max_block_size', settings.get('max_insert_block_size') ?? INSERT_BLOCK_ROWS],
  ]);
}

/** Nothing until there is HELD_BYTES, or all of it. @throws what `ended` throws, when all before was yielded or held */
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
  const answer = (await ended).bytes; // of what is no SELECT
  yield* held;
  if (answer.length > 0) yield answer;
}

async function* from(first: IteratorResult<Buffer, void>, rest: AsyncIterable<Buffer>) {
  if (first.done) return;
  yield first.value;
  yield* rest;
}
