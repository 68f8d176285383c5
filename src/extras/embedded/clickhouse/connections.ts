// Gives each request its own chDB connection: its settings, parameters and current database end with the request.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Chdb, ChdbConnection } from './chdb.js';
import { ClickHouseError } from './errors.js';
import { literal } from './statement.js';
import { roleOf, type User } from './users.js';

/** `1 + 1` is a syntax error, as on a server; chDB would answer 2. */
const CONNECTION = ['--implicit_select=0'];
/** For the whole process: Redis and wishmeter need memory, too. */
const PROCESS = ['--max_server_memory_usage_to_ram_ratio=0.5'];

/**
 * chDB takes no query id, so this setting marks a statement in `system.processes`. Only a server's HTTP interface reads it.
 */
const NUMBER = 'http_headers_progress_interval_ms';

/** Repeated, because a statement that has not begun can't be killed. */
const KILL_AGAIN_MS = 200;

export type Bounds = Readonly<Record<string, number>>;

export interface Scope {
  readonly user: User;
  readonly database: string | undefined;
  readonly settings: ReadonlyMap<string, string>;
  /** Values with TSV escapes, as in ClickHouse's HTTP interface. */
  readonly params: ReadonlyMap<string, string>;
  /** ClickHouse's setting: 0 read and write; 1 read only; 2 read only, settings may change. */
  readonly readonly: 0 | 1 | 2;
}

export class ClickHouseConnections {
  readonly #chdb: Chdb;
  readonly #dir: string;
  readonly #args: readonly string[];
  /** Keeps the folder open between requests. */
  readonly #base: ChdbConnection;
  #count = 0;

  /**
   * @param access see access.ts
   * @throws if the folder is locked by another process or can't be opened
   */
  constructor(chdb: Chdb, dir: string, access: string) {
    this.#chdb = chdb;
    this.#dir = dir;
    this.#args = [...CONNECTION, access];
    this.#base = chdb.CreateConnection(dir, [...this.#args, ...PROCESS]);
  }

  /** Runs an internal statement, without settings of a caller. */
  async ask(sql: string): Promise<string> {
    return await this.#with(async (connection) => {
      const { bytes } = await this.#chdb.QueryAsyncConnection(connection, sql, 'TSVRaw');
      return bytes.toString().replace(/\n$/, '');
    });
  }

  /**
   * Calls `use` with a connection that is set up for one request.
   * @param bounds upper bounds of settings, and their values if the request sets none
   * @param ends kills the running statement, which ends after its current block of rows
   * @throws chDB's errors about database, settings and parameters, and errors of `use`
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

  /** Call after the last request has ended. */
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
    changes.set(name, String(asked > 0 ? Math.min(asked, most) : most)); // to ClickHouse 0 means no limit
  }
  changes.set(NUMBER, number);
  for (const name of changes.keys())
    if (!/^[A-Za-z_]\w*$/.test(name))
      throw ClickHouseError.of('UNKNOWN_SETTING', `Unknown setting '${name}'.`);
  return [
    `SET ROLE ${roleOf(user)}`,
    ...(database ? [`USE ${identifier(database)}`] : []),
    `SET ${[...changes].map(([name, value]) => `${name} = ${literal(value)}`).join(', ')}`,
    // Last: no setting can change after it.
    ...(readonly === 0 ? [] : [`SET readonly = ${readonly}`]),
  ];
}

function identifier(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``;
}
