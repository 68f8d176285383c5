// Each request runs on a chDB connection of its own, so that its settings, parameters and current database end with it.

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
}

/** A connection that is set up for one request. */
export interface Lease {
  readonly connection: ChdbConnection;
  /** Call when nothing runs on it any more. May be called again. */
  release(): void;
}

export class ClickHouseConnections {
  /** Keeps the folder open while no request does. */
  readonly base: ChdbConnection;
  readonly #chdb: Chdb;
  readonly #dir: string;
  readonly #args: readonly string[];

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
      release();
    }
  }

  /** @throws what chDB says of the database, the settings and the parameters. */
  async lease(scope: Scope): Promise<Lease> {
    const lease = this.#fresh();
    try {
      await this.#run(lease.connection, preparing(scope).join('; '));
      return lease;
    } catch (error) {
      lease.release();
      throw error;
    }
  }

  /** Call when no lease is left. */
  close(): void {
    this.#chdb.CloseConnection(this.base);
  }

  #fresh(): Lease {
    const connection = this.#chdb.CreateConnection(this.#dir, this.#args);
    let isOpen = true;
    const release = () => {
      if (isOpen) this.#chdb.CloseConnection(connection);
      isOpen = false;
    };
    return { connection, release };
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

/** As SQL's text literal. */
export function literal(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}

function identifier(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``;
}
