// Which chDB connection a request runs on: one of its own, so that its settings, parameters and current
// database end with it; or its session's, which is kept, and gets back what the request changed for itself.

import type { Chdb, ChdbConnection } from './chdb.js';
import { ClickHouseError } from './clickhouse-errors.js';
import type { Role } from './clickhouse-users.js';

/** A server's answer to `1 + 1` is a syntax error; clickhouse-local's, and chDB's, is 2. */
const CONNECTION = ['--implicit_select=0'];
/** For the whole process: it shares its machine with the shop's Redis and with us. */
const PROCESS = ['--max_server_memory_usage_to_ram_ratio=0.5'];

type Pairs = readonly (readonly [name: string, value: string])[];

/** What a request brings along with its statement. */
export interface Scope {
  readonly role: Role;
  readonly database?: string | undefined;
  readonly settings: Pairs;
  /** Values in TSV's escapes, as the HTTP interface has them. */
  readonly params: Pairs;
  /** As ClickHouse's setting: 0 is no, 2 nothing may be changed but settings, 1 not even those. */
  readonly readonly: 0 | 1 | 2;
  readonly session?: { readonly id: string; readonly timeoutMs: number; readonly mustExist: boolean };
}

interface Session {
  readonly connection: ChdbConnection;
  busy: boolean;
  expiry: NodeJS.Timeout | undefined;
}

/** A connection that is set up for one request. */
export interface Lease {
  readonly connection: ChdbConnection;
  /** Call when nothing runs on it any more. May be called again. */
  release(): Promise<void>;
}

export class ClickHouseConnections {
  /** Keeps the folder open while no request does. */
  readonly base: ChdbConnection;
  readonly #chdb: Chdb;
  readonly #dir: string;
  readonly #args: readonly string[];
  readonly #sessions = new Map<string, Session>();

  /**
   * @param access the argument that names users and grants; see clickhouse-access.ts
   * @throws where another process has the folder, or it can't be opened
   */
  constructor(chdb: Chdb, dir: string, access: string) {
    this.#chdb = chdb;
    this.#dir = dir;
    this.#args = [...CONNECTION, access];
    this.base = chdb.CreateConnection(dir, [...this.#args, ...PROCESS]);
  }

  /** One text, the answer to a statement of our own, on a connection of its own: no setting of a caller's counts. */
  async ask(sql: string): Promise<string> {
    const { connection, release } = this.#fresh();
    try {
      return await this.#run(connection, sql, 'TSVRaw');
    } finally {
      await release();
    }
  }

  /** @throws what chDB says of the database, the settings and the parameters; ClickHouseError of the session. */
  async lease(scope: Scope): Promise<Lease> {
    const lease = scope.session ? await this.#ofSession(scope, scope.session) : this.#fresh();
    try {
      await this.#run(lease.connection, preparing(scope).join('; '));
      return lease;
    } catch (error) {
      await lease.release();
      throw error;
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

  /** Call when no lease is left. */
  close(): void {
    for (const id of [...this.#sessions.keys()]) this.closeSession(id);
    this.#chdb.CloseConnection(this.base);
  }

  #fresh(): Lease {
    const connection = this.#chdb.CreateConnection(this.#dir, this.#args);
    return { connection, release: onlyOnce(async () => this.#chdb.CloseConnection(connection)) };
  }

  async #ofSession(
    scope: Scope,
    { id, timeoutMs, mustExist }: NonNullable<Scope['session']>,
  ): Promise<Lease> {
    const known = this.#sessions.get(id);
    if (!known && mustExist) throw ClickHouseError.of('SESSION_NOT_FOUND', `Session ${id} not found.`);
    if (known?.busy) {
      throw ClickHouseError.of('SESSION_IS_LOCKED', `Session ${id} is locked by a concurrent client.`);
    }
    const session: Session = known ?? {
      connection: this.#chdb.CreateConnection(this.#dir, this.#args),
      busy: true,
      expiry: undefined,
    };
    this.#sessions.set(id, session);
    session.busy = true;
    clearTimeout(session.expiry);
    const { connection } = session;
    let before: readonly string[] = [];
    const release = async () => {
      try {
        for (const sql of before) await this.#run(connection, sql);
      } catch {
        this.#sessions.delete(id); // something can't be put back: the session ends here
      }
      if (scope.readonly !== 0) this.#sessions.delete(id); // and `readonly` never can
      session.busy = false;
      const closedMeanwhile = this.#sessions.get(id) !== session;
      if (closedMeanwhile) this.#chdb.CloseConnection(connection);
      else session.expiry = setTimeout(() => this.closeSession(id), timeoutMs).unref();
    };
    const lease = { connection, release: onlyOnce(release) };
    try {
      before = await this.#before(connection, scope);
    } catch (error) {
      await lease.release(); // a session may have settings under which not even this can be asked
      throw error;
    }
    return lease;
  }

  /** The statements that put back what `preparing` changes. */
  async #before(connection: ChdbConnection, { database, settings }: Scope): Promise<string[]> {
    const ask = async (sql: string) =>
      (await this.#run(connection, sql, 'JSONCompactEachRow'))
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as string[]);
    const use = database ? await ask('SELECT currentDatabase()') : [];
    const names = settings.map(([name]) => literal(name)).join(', ');
    const set = names ? await ask(`SELECT name, value FROM system.settings WHERE name IN (${names})`) : [];
    return [
      ...use.map(([name = '']) => `USE ${identifier(name)}`),
      ...set.map(([name, value = '']) => `SET ${name} = ${literal(value)}`),
    ];
  }

  async #run(connection: ChdbConnection, sql: string, format = 'TabSeparated'): Promise<string> {
    return (await this.#chdb.QueryAsyncConnection(connection, sql, format)).bytes.toString();
  }
}

function preparing({ role, database, settings, params, readonly }: Scope): string[] {
  const changes = [...settings, ...params.map(([name, value]) => [`param_${name}`, value] as const)];
  for (const [name] of changes) {
    if (!/^[A-Za-z_]\w*$/.test(name)) {
      throw ClickHouseError.of('UNKNOWN_SETTING', `Unknown setting '${name}'.`);
    }
  }
  return [
    `SET ROLE ${role}`,
    ...(database ? [`USE ${identifier(database)}`] : []),
    ...(changes.length > 0
      ? [`SET ${changes.map(([name, value]) => `${name} = ${literal(value)}`).join(', ')}`]
      : []),
    // Last, for it forbids changing it back.
    ...(readonly === 0 ? [] : [`SET readonly = ${readonly}`]),
  ];
}

/** Both the end of a stream and the failure of its request release what they hold. */
function onlyOnce(release: () => Promise<void>): () => Promise<void> {
  let released: Promise<void> | undefined;
  return () => {
    released ??= release();
    return released;
  };
}

/** As SQL's text literal. */
export function literal(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}

function identifier(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``;
}
