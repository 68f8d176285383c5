// The native side of chDB: ClickHouse in this process. The only file that knows the addon.
//
// The package's own Session binds every query to a session of its own. This takes the addon that the package's loader
// finds (package.json pins the version): a connection per request keeps requests apart.
//
// What the addon asks for: one operation at a time per connection, none left when it is closed. Connections
// to one folder are cheap (0.15 ms), independent, and each has settings, parameters, current database and
// temporary tables of its own.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { StartupError } from '../../errors.js';

const MANIFEST = new URL('../../../../package.json', import.meta.url);

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
  /** The first one opens the folder. `args` as on clickhouse-local's command line; settings count for this connection only. */
  CreateConnection(dir: string, args: readonly string[]): ChdbConnection;
  CloseConnection(connection: ChdbConnection): void;
  /** Runs statements on a thread of libuv's and holds the whole result, but for what goes INTO OUTFILE. */
  QueryAsyncConnection(connection: ChdbConnection, sql: string, format: string): Promise<ChdbResult>;
}

/**
 * Loads the library (tens of milliseconds).
 * @throws StartupError where it is not installed, or not for this machine
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
