// chDB's native addon: ClickHouse in this process. We use the addon and not the package's Session, because each request needs
// its own connection (package.json pins the version).
//
// The addon requires: one operation at a time per connection, and none left when it is closed. A connection costs 0.15 ms and
// has its own settings, parameters, current database and temporary tables.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { StartupError } from '../../../errors.js';

const MANIFEST = new URL('../../../../../package.json', import.meta.url);

/** An open connection; opaque. */
export interface ChdbConnection {
  readonly connection: unique symbol;
}

export interface ChdbResult {
  readonly bytes: Buffer;
  readonly rowsRead: number;
  readonly bytesRead: number;
}

export interface Chdb {
  /** The first connection opens the folder. @param args as on clickhouse-local's command line, for this connection only */
  CreateConnection(dir: string, args: readonly string[]): ChdbConnection;
  CloseConnection(connection: ChdbConnection): void;
  /** Runs statements on a thread of libuv. The whole result is held in memory, unless it goes INTO OUTFILE. */
  QueryAsyncConnection(connection: ChdbConnection, sql: string, format: string): Promise<ChdbResult>;
}

/**
 * Loads the library (tens of milliseconds).
 * @throws StartupError if it is not installed or not built for this machine
 */
export function loadChdb(): Chdb {
  const require = createRequire(import.meta.url);
  try {
    const folder = dirname(require.resolve('chdb/package.json'));
    return require(join(folder, 'dist/loader.js')).loadNative() as Chdb;
  } catch (error) {
    const { optionalDependencies } = JSON.parse(readFileSync(MANIFEST, 'utf8'));
    const [reason] = (error as Error).message.split('\n');
    throw new StartupError(
      (error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND'
        ? `The embedded ClickHouse is not installed: run \`npm install chdb@${optionalDependencies.chdb}\`, or set CLICKHOUSE_URL to a ClickHouse server.`
        : `The embedded ClickHouse can't be loaded (${reason}): set CLICKHOUSE_URL to a ClickHouse server.`,
    );
  }
}
