// Each request runs on a chDB connection of its own, so that its settings, parameters and current database end with it.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Chdb, ChdbConnection } from './chdb.js';
import { ClickHouseError } from './clickhouse-errors.js';
import { roleOf, type User } from './clickhouse-users.js';

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

type Pairs = readonly (readonly [name: string, value: string])[];

/** What a request brings along with its statement. */
export interface Scope {
  readonly user: User;
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
  #count = 0;

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

  /**
   * @param bounds settings, and the most that each of them may be, which is also what it is where the request has none
   * @param ends kills what runs on the connection, at the end of the block of rows that it is at
   * @throws what chDB says of the database, the settings and the parameters.
   */
  async lease(scope: Scope, bounds: Bounds, ends: AbortSignal): Promise<Lease> {
    const { connection, release } = this.#fresh();
    const number = String(++this.#count);
    try {
      await this.#run(connection, preparing(scope, bounds, number).join('; '));
    } catch (error) {
      release();
      throw error;
    }
    let isHeld = true;
    const kill = async () => {
      for (; isHeld; await sleep(KILL_AGAIN_MS)) {
        await this.ask(`KILL QUERY WHERE Settings['${NUMBER}'] = '${number}' ASYNC`).catch(() => {});
      }
    };
    if (ends.aborted) kill();
    else ends.addEventListener('abort', kill, { once: true });
    return {
      connection,
      release: () => {
        isHeld = false;
        ends.removeEventListener('abort', kill);
        release();
      },
    };
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

function preparing(scope: Scope, bounds: Bounds, number: string): string[] {
  const { user, database, settings, params, readonly } = scope;
  const asked = new Map(settings);
  const bounded = Object.entries(bounds).map(([setting, most]) => {
    const value = Number(asked.get(setting));
    return [setting, String(value > 0 ? Math.min(value, most) : most)] as const; // 0 is no limit to ClickHouse
  });
  // A result is cut short at a limit that the request has, never at a bound of ours alone.
  const ofResult = bounded.filter(([setting]) => setting.startsWith('max_result_'));
  const isOurs = ofResult.length > 0 && ofResult.every(([setting, value]) => value !== asked.get(setting));
  const changes = new Map([
    ...settings,
    ...bounded,
    ...(isOurs ? [['result_overflow_mode', 'throw'] as const] : []),
    ...params.map(([param, value]) => [`param_${param}`, value] as const),
    [NUMBER, number] as const,
  ]);
  for (const setting of changes.keys()) {
    if (!/^[A-Za-z_]\w*$/.test(setting)) {
      throw ClickHouseError.of('UNKNOWN_SETTING', `Unknown setting '${setting}'.`);
    }
  }
  return [
    `SET ROLE ${roleOf(user)}`,
    ...(database ? [`USE ${identifier(database)}`] : []),
    `SET ${[...changes].map(([setting, value]) => `${setting} = ${literal(value)}`).join(', ')}`,
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
