// chDB's native addon: ClickHouse in this process. The package's own Session isn't used, because it has only one
// connection. Opening a connection takes 0.15 ms. It runs one operation at a time, and must be idle when it is closed.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { StartupError } from '../../../errors.js';

const MANIFEST = new URL('../../../../../package.json', import.meta.url);

export interface ChdbConnection {
  readonly connection: unique symbol;
}

export interface ChdbResult {
  readonly bytes: Buffer;
  readonly rowsRead: number;
  readonly bytesRead: number;
}

export interface Chdb {
  /** The first connection opens the folder. @param args options, as of clickhouse-local */
  CreateConnection(dir: string, args: readonly string[]): ChdbConnection;
  CloseConnection(connection: ChdbConnection): void;
  /** Blocks a libuv thread. The result is held in memory, unless the statement has INTO OUTFILE. */
  QueryAsyncConnection(connection: ChdbConnection, sql: string, format: string): Promise<ChdbResult>;
}

/** @throws StartupError if chDB is not installed or not built for this machine */
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
