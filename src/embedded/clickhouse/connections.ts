// Each request runs on a chDB connection of its own, so that its settings, parameters and current database end with it.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Chdb, ChdbConnection } from './chdb.js';
import { ClickHouseError } from './errors.js';
import { literal } from './statement.js';
import { roleOf, type User } from './users.js';

/** A server's answer to `1 + 1` is a syntax error; clickhouse-local's, and chDB's, is 2. */
const CONNECTION = ['--implicit_select=0'];
/** For the whole process: it shares its machine with the shop's Redis and with us. */
const PROCESS = ['--max_server_memory_usage_to_ram_ratio=0.5'];

/**
 * The setting that says in `system.processes` which statement is which: chDB takes no query id. Only a server's own HTTP
 * interface reads it.
 */
const NUMBER = 'http_headers_progress_interval_ms';

/** What has not begun yet can't be killed: hence repeats. */
const KILL_AGAIN_MS = 200;

export type Bounds = Readonly<Record<string, number>>;

/** What a request brings along with its statement. */
export interface Scope {
  readonly user: User;
  readonly database: string | undefined;
  readonly settings: ReadonlyMap<string, string>;
  /** Values in TSV's escapes, as the HTTP interface has them. */
  readonly params: ReadonlyMap<string, string>;
  /** As ClickHouse's setting: 0 is no, 2 nothing may be changed but settings, 1 not even those. */
  readonly readonly: 0 | 1 | 2;
}

export class ClickHouseConnections {
  readonly #chdb: Chdb;
  readonly #dir: string;
  readonly #args: readonly string[];
  /** Keeps the folder open while no request does. */
  readonly #base: ChdbConnection;
  #count = 0;

  /**
   * @param access the argument that names users and grants; see access.ts
   * @throws where another process has the folder, or it can't be opened
   */
  constructor(chdb: Chdb, dir: string, access: string) {
    this.#chdb = chdb;
    this.#dir = dir;
    this.#args = [...CONNECTION, access];
    this.#base = chdb.CreateConnection(dir, [...this.#args, ...PROCESS]);
  }

  /** The answer to a statement of our own: no setting of a caller's counts. */
  async ask(sql: string): Promise<string> {
    return await this.#with(async (connection) => {
      const { bytes } = await this.#chdb.QueryAsyncConnection(connection, sql, 'TSVRaw');
      return bytes.toString().replace(/\n$/, '');
    });
  }

  /**
   * Has `use` run with a connection that is set up for one request.
   * @param bounds settings, and the most that each of them may be, which is also what it is where the request has none
   * @param ends kills what runs on the connection, at the end of the block of rows that it is at
   * @throws what chDB says of the database, the settings and the parameters, and what `use` throws
   */
  async forRequest(
    scope: Scope,
    bounds: Bounds,
    ends: AbortSignal | undefined,
    use: (connection: ChdbConnection) => Promise<void>,
  ): Promise<void> {
    await this.#with(async (connection) => {
      const number = String(++this.#count);
      const preparing = statementsFor(scope, bounds, number).join('; ');
      await this.#chdb.QueryAsyncConnection(connection, preparing, 'TSV');
      let isUsed = true;
      const kill = async () => {
        for (; isUsed; await sleep(KILL_AGAIN_MS)) {
          await this.ask(`KILL QUERY WHERE Settings['${NUMBER}'] = '${number}' ASYNC`).catch(() => {});
        }
      };
      ends?.addEventListener('abort', kill, { once: true });
      if (ends?.aborted) kill();
      try {
        await use(connection);
      } finally {
        isUsed = false;
        ends?.removeEventListener('abort', kill);
      }
    });
  }

  /** Call when no request is left. */
  close(): void {
    this.#chdb.CloseConnection(this.#base);
  }

  async #with<T>(use: (connection: ChdbConnection) => Promise<T>): Promise<T> {
    const connection = this.#chdb.CreateConnection(this.#dir, this.#args);
    try {
      return await use(connection);
    } finally {
      this.#chdb.CloseConnection(connection);
    }
  }
}

function statementsFor(scope: Scope, bounds: Bounds, number: string): string[] {
  const { user, database, settings, params, readonly } = scope;
  const changes = new Map([
    ...settings,
    ...[...params].map(([name, value]) => [`param_${name}`, value] as const),
  ]);
  for (const [name, most] of Object.entries(bounds)) {
    const asked = Number(settings.get(name));
    changes.set(name, String(asked > 0 ? Math.min(asked, most) : most)); // 0 is no limit to ClickHouse
  }
  changes.set(NUMBER, number);
  for (const name of changes.keys())
    if (!/^[A-Za-z_]\w*$/.test(name))
      throw ClickHouseError.of('UNKNOWN_SETTING', `Unknown setting '${name}'.`);
  return [
    `SET ROLE ${roleOf(user)}`,
    ...(database ? [`USE ${identifier(database)}`] : []),
    `SET ${[...changes].map(([name, value]) => `${name} = ${literal(value)}`).join(', ')}`,
    // Last, for it forbids changing it back.
    ...(readonly === 0 ? [] : [`SET readonly = ${readonly}`]),
  ];
}

function identifier(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``;
}
