// Gives each request a chDB connection of its own, so that settings, parameters and database end with the request.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Chdb, ChdbConnection } from './chdb.js';
import { ClickHouseError } from './errors.js';
import { literal } from './statement.js';
import { roleOf, type User } from './users.js';

const CONNECTION = ['--implicit_select=0'];
/** Options of the first connection, which hold for the whole process. */
const PROCESS = ['--max_server_memory_usage_to_ram_ratio=0.5'];

/** A setting that has no effect here, and marks a statement for KILL QUERY, because chDB takes no query id. */
const NUMBER = 'http_headers_progress_interval_ms';

/** KILL QUERY is repeated after so many milliseconds, because it has no effect before the statement has begun. */
const KILL_AGAIN_MS = 200;

export type Bounds = Readonly<Record<string, number>>;

export interface Scope {
  readonly user: User;
  readonly database: string | undefined;
  readonly settings: ReadonlyMap<string, string>;
  /** Values have TSV escapes. */
  readonly params: ReadonlyMap<string, string>;
  /** 0 may write, 1 may only read, 2 may only read and change settings. */
  readonly readonly: 0 | 1 | 2;
}

export class ClickHouseConnections {
  readonly #chdb: Chdb;
  readonly #dir: string;
  readonly #args: readonly string[];
  readonly #base: ChdbConnection;
  #count = 0;

  constructor(chdb: Chdb, dir: string, access: string) {
    this.#chdb = chdb;
    this.#dir = dir;
    this.#args = [...CONNECTION, access];
    this.#base = chdb.CreateConnection(dir, [...this.#args, ...PROCESS]);
  }

  async ask(sql: string): Promise<string> {
    return await this.#with(async (connection) => {
      const { bytes } = await this.#chdb.QueryAsyncConnection(connection, sql, 'TSVRaw');
      return bytes.toString().replace(/\n$/, '');
    });
  }

  /**
   * @param bounds settings with their upper bounds, which are also the defaults
   * @param ends aborts to kill the running statement
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
    changes.set(name, String(asked > 0 ? Math.min(asked, most) : most)); // 0 means no limit
  }
  changes.set(NUMBER, number);
  for (const name of changes.keys())
    if (!/^[A-Za-z_]\w*$/.test(name))
      throw ClickHouseError.of('UNKNOWN_SETTING', `Unknown setting '${name}'.`);
  return [
    `SET ROLE ${roleOf(user)}`,
    ...(database ? [`USE ${identifier(database)}`] : []),
    `SET ${[...changes].map(([name, value]) => `${name} = ${literal(value)}`).join(', ')}`,
    // This comes last, because no setting can change afterwards.
    ...(readonly === 0 ? [] : [`SET readonly = ${readonly}`]),
  ];
}

function identifier(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``;
}
