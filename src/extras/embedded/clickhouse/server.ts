// The embedded ClickHouse's process: `node server.js <folder> <port> <analystSeconds> <readable>`. At SIGTERM it
// finishes running requests.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ChildMessage, GONE_MS } from '../child.js';
import { type Readable, writeAccess } from './access.js';
import { type Chdb, loadChdb } from './chdb.js';
import { ClickHouseEngine } from './engine.js';
import { createHandler } from './http.js';
import { servicePassword, writeServiceUrl } from './service-url.js';

const HOST = '127.0.0.1';
const KEEP_ALIVE_MS = 30_000;
/** ClickHouse's http_max_uri_size. */
const MAX_HEADER_BYTES = 1024 * 1024;
/** Milliseconds to finish requests after SIGTERM, less than the parent waits before SIGKILL. */
const FINISH_MS = 7_000;
const RETRY_MS = 100;

process.title = 'wishmeter clickhouse';
process.umask(0o077);
const [dir = '', port = '0', analystSeconds, readable] = process.argv.slice(2);

const report = (message: ChildMessage & { url?: string }) =>
  new Promise<void>((sent) => (process.send ? process.send(message, undefined, {}, () => sent()) : sent()));

async function fail(sentence: string): Promise<never> {
  await report({ failed: sentence });
  process.exit(1);
}

async function load(): Promise<Chdb> {
  try {
    return loadChdb();
  } catch (error) {
    return await fail((error as Error).message);
  }
}

async function openEngine(): Promise<ClickHouseEngine> {
  const chdb = await load();
  const access = writeAccess(dir, readable ? (JSON.parse(readable) as Readable) : undefined);
  // Retries, because the ClickHouse of a killed parent may finish a query before it unlocks the folder.
  for (const deadline = performance.now() + GONE_MS; ; await sleep(RETRY_MS)) {
    try {
      return new ClickHouseEngine(chdb, dir, access, Number(analystSeconds));
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
  }
}

// The error goes to stderr, whose last lines the parent shows.
const engine = await openEngine().catch((error: Error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
const password = servicePassword(dir);
const server = createServer(
  { keepAliveTimeout: KEEP_ALIVE_MS, maxHeaderSize: MAX_HEADER_BYTES },
  await createHandler(engine, password),
);

server.once('error', (error: NodeJS.ErrnoException) => {
  const taken = error.code === 'EADDRINUSE';
  fail(
    taken
      ? `Port ${port} of ${HOST} is taken; set another CLICKHOUSE_PORT.`
      : `ClickHouse can't listen: ${error.message}.`,
  );
});
server.listen(Number(port), HOST, () => {
  report({ ready: true, url: writeServiceUrl(dir, password, (server.address() as AddressInfo).port) });
});

process.once('SIGTERM', () => {
  // A running query's thread would delay a normal exit.
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), FINISH_MS).unref();
  server.close(() => {
    engine.close();
    process.exit(0);
  });
  // `close` doesn't close connections that become idle later.
  setInterval(() => server.closeIdleConnections(), 20);
});
