// ClickHouse as a server has it, over chDB: each request runs on a connection of its own, so that its
// settings, parameters and current database end with it. A session is a connection that is kept.
//
//   request ─▶ slot ─▶ connection ─▶ USE, SET ─▶ insert | stream | whole result ─▶ connection closed
//
// chDB's calls run on libuv's threads (UV_THREADPOOL_SIZE, set where the process is started). Reads and
// inserts have places of their own among them, so that no number of long SELECTs keeps an insert waiting.

import type { Chdb, ChdbConnection, ChdbStream } from './chdb.js';
import { ClickHouseError } from './clickhouse-errors.js';
import { Slots } from './slots.js';

/** Threads that the process needs: every place below, and one for gzip. */
export const ENGINE_THREADS = 12;
const READS = 7;
const INSERTS = 4;

/** A server's answer to `1 + 1` is a syntax error; clickhouse-local's, and chDB's, is 2. */
const CONNECTION = ['--implicit_select=0'];
/** For the whole process: it shares its machine with the shop's Redis and with us. */
const PROCESS = ['--max_server_memory_usage_to_ram_ratio=0.5'];

const NO_DATA_TO_INSERT = 108;

type Pairs = readonly (readonly [name: string, value: string])[];

/** What a request brings along with its statement. */
export interface Scope {
  readonly database?: string | undefined;
  readonly settings: Pairs;
  /** Values in TSV's escapes, as the HTTP interface has them. */
  readonly params: Pairs;
  /** Nothing may be changed (GET). */
  readonly readonly: boolean;
  readonly session?: { readonly id: string; readonly timeoutMs: number; readonly mustExist: boolean };
}

export interface Result {
  readonly chunks: AsyncIterable<Buffer>;
  /** Rows and bytes; unknown while it still streams. */
  readonly rows: number;
  readonly bytes: number;
}

interface Session {
  readonly connection: ChdbConnection;
  busy: boolean;
  expiry: NodeJS.Timeout | undefined;
}

interface Lease {
  readonly connection: ChdbConnection;
  release(): Promise<void>;
}

export class ClickHouseEngine {
  readonly #chdb: Chdb;
  readonly #dir: string;
  /** Keeps the folder open while no request does. */
  readonly #base: ChdbConnection;
  readonly #reads = new Slots(READS);
  readonly #inserts = new Slots(INSERTS);
  readonly #sessions = new Map<string, Session>();

  /** @throws where another process has the folder, or it can't be opened. */
  constructor(chdb: Chdb, dir: string) {
    this.#chdb = chdb;
    this.#dir = dir;
    this.#base = chdb.CreateConnection(dir, [...CONNECTION, ...PROCESS]);
  }

  /** Runs a statement of our own and answers its one column. */
  async column(sql: string): Promise<string[]> {
    const { bytes } = await this.#chdb.QueryAsyncConnection(this.#base, sql, 'TabSeparated');
    return bytes.toString().split('\n').slice(0, -1);
  }

  /**
   * Runs any statement but an INSERT with data. With `stream`, a SELECT's chunks come as they are made:
   * for formats whose chunks make the document when put together.
   * @throws ClickHouseError, also out of `chunks`.
   */
  async query(scope: Scope, sql: string, format: string, stream: boolean): Promise<Result> {
    const lease = await this.#lease(this.#reads, scope);
    try {
      const streamed = stream ? this.#start(lease, sql, format) : undefined;
      if (streamed) {
        // Asked for the first chunk before anything is answered, so that most errors can be told by status.
        const chunks = this.#fetch(lease, streamed);
        const first = await chunks.next();
        return { chunks: first.done ? none() : rest(first.value, chunks), rows: 0, bytes: 0 };
      }
      const { statementCount } = await this.#chdb.DurableClassifyAsync(lease.connection, sql, 'default');
      if (statementCount > 1) {
        throw ClickHouseError.of('SYNTAX_ERROR', 'Syntax error (Multi-statements are not allowed).');
      }
      const result = await this.#chdb.QueryAsyncConnection(lease.connection, sql, format);
      await lease.release();
      return { chunks: once(result.bytes), rows: result.rowsRead, bytes: result.bytesRead };
    } catch (error) {
      await lease.release();
      throw ClickHouseError.from(error);
    }
  }

  /**
   * Runs `INSERT …` whose text is `sql`, a line break and `data`. It is on its way to disk when this resolves:
   * a kill -9 of the process no longer loses it.
   * @throws ClickHouseError
   */
  async insert(scope: Scope, sql: string, data: Buffer): Promise<{ rows: number; bytes: number }> {
    const lease = await this.#lease(this.#inserts, scope);
    try {
      const result = await this.#chdb.InsertRawAsyncConnection(lease.connection, sql, data, false);
      return { rows: result.rowsWritten, bytes: result.bytesWritten };
    } catch (error) {
      const told = ClickHouseError.from(error);
      if (told.code === NO_DATA_TO_INSERT) return { rows: 0, bytes: 0 }; // a server takes no rows for an answer
      throw told;
    } finally {
      await lease.release();
    }
  }

  /** Ends a session and its temporary tables; one in use ends with its request. */
  closeSession(id: string): void {
    const session = this.#sessions.get(id);
    if (!session) return;
    this.#sessions.delete(id);
    clearTimeout(session.expiry);
    if (!session.busy) this.#chdb.CloseConnection(session.connection);
  }

  /** Call when no request is left. */
  close(): void {
    for (const id of [...this.#sessions.keys()]) this.closeSession(id);
    this.#chdb.CloseConnection(this.#base);
  }

  async #lease(slots: Slots, scope: Scope): Promise<Lease> {
    const giveBack = await slots.take();
    try {
      return scope.session
        ? await this.#leaseSession(scope, scope.session, giveBack)
        : await this.#leaseFresh(scope, giveBack);
    } catch (error) {
      giveBack();
      throw ClickHouseError.from(error);
    }
  }

  async #leaseFresh(scope: Scope, giveBack: () => void): Promise<Lease> {
    const connection = this.#chdb.CreateConnection(this.#dir, CONNECTION);
    try {
      await this.#prepare(connection, scope);
    } catch (error) {
      this.#chdb.CloseConnection(connection);
      throw error;
    }
    const release = async () => {
      this.#chdb.CloseConnection(connection);
      giveBack();
    };
    return { connection, release: onlyOnce(release) };
  }

  async #leaseSession(
    scope: Scope,
    { id, timeoutMs, mustExist }: NonNullable<Scope['session']>,
    giveBack: () => void,
  ): Promise<Lease> {
    const known = this.#sessions.get(id);
    if (!known && mustExist) throw ClickHouseError.of('SESSION_NOT_FOUND', `Session ${id} not found.`);
    if (known?.busy)
      throw ClickHouseError.of('SESSION_IS_LOCKED', `Session ${id} is locked by a concurrent client.`);
    const session = known ?? {
      connection: this.#chdb.CreateConnection(this.#dir, CONNECTION),
      busy: true,
      expiry: undefined,
    };
    this.#sessions.set(id, session);
    session.busy = true;
    clearTimeout(session.expiry);
    const { connection } = session;

    let restore: string[] = [];
    const release = async () => {
      for (const sql of restore) await this.#chdb.QueryAsyncConnection(connection, sql, 'TabSeparated');
      session.busy = false;
      session.expiry = setTimeout(() => this.closeSession(id), timeoutMs).unref();
      if (this.#sessions.get(id) !== session) this.#chdb.CloseConnection(connection); // closed meanwhile
      giveBack();
    };
    try {
      restore = await this.#restoring(connection, scope);
      await this.#prepare(connection, scope);
    } catch (error) {
      giveBack = () => {}; // #lease does it
      await release();
      throw error;
    }
    return { connection, release: onlyOnce(release) };
  }

  /** The statements that undo `#prepare` on a connection that is kept. */
  async #restoring(connection: ChdbConnection, { database, settings }: Scope): Promise<string[]> {
    const before: string[] = [];
    const ask = async (sql: string) =>
      (await this.#chdb.QueryAsyncConnection(connection, sql, 'JSONCompactEachRow')).bytes
        .toString()
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as string[]);
    if (database)
      for (const [name = ''] of await ask('SELECT currentDatabase()')) before.push(`USE ${identifier(name)}`);
    if (settings.length > 0) {
      const names = settings.map(([name]) => literal(name)).join(', ');
      const values = await ask(`SELECT name, value FROM system.settings WHERE name IN (${names})`);
      before.push(...values.map(([name, value = '']) => `SET ${name} = ${literal(value)}`));
    }
    return before;
  }

  async #prepare(connection: ChdbConnection, { database, settings, params, readonly }: Scope): Promise<void> {
    const run = (sql: string) => this.#chdb.QueryAsyncConnection(connection, sql, 'TabSeparated');
    if (database) await run(`USE ${identifier(database)}`);
    const changes = [
      ...settings,
      ...params.map(([name, value]) => [`param_${name}`, value] as const),
      // 2: settings may be given, data may not be changed. Last, for it forbids changing it back.
      ...(readonly ? [['readonly', '2'] as const] : []),
    ];
    if (changes.length === 0) return;
    for (const [name] of changes) {
      if (!/^[A-Za-z_]\w*$/.test(name))
        throw ClickHouseError.of('UNKNOWN_SETTING', `Unknown setting '${name}'.`);
    }
    await run(`SET ${changes.map(([name, value]) => `${name} = ${literal(value)}`).join(', ')}`);
  }

  /** undefined for statements that chDB does not stream (SHOW, CREATE, …). */
  #start(lease: Lease, sql: string, format: string): ChdbStream | undefined {
    try {
      return this.#chdb.StreamQuery(lease.connection, sql, format);
    } catch (error) {
      if (error instanceof Error && error.message.includes('Streaming query is not supported'))
        return undefined;
      throw error;
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
      await lease.release();
    }
  }
}

/** Both the end of a stream and the failure of its request release what they hold. */
function onlyOnce(release: () => Promise<void>): () => Promise<void> {
  let released: Promise<void> | undefined;
  return () => {
    released ??= release();
    return released;
  };
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

function literal(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}

function identifier(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``;
}
