// Embedded ClickHouse for `start` and the tests: starts server.ts as a child process. chDB lets only one process open a
// folder, so all others use its HTTP interface.

import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { bareEnvironment, type ChildState, nodeCommand, readyOverIpc, startChild } from '../child.js';
import type { Readable } from './access.js';
import { ENGINE_THREADS } from './engine.js';

const SERVER = new URL('./server.js', import.meta.url);

export interface ClickHouseSpec {
  /** Data folder; created if missing. */
  readonly dir: string;
  /** Nothing if absent. */
  readonly readable?: Readable;
  /** Seconds that a statement of `analyst` or `dashboard` may run; 60 if absent. */
  readonly analystSeconds?: number;
  /** Loopback port; 0, the default, takes a free one and keeps it across restarts. */
  readonly port?: number;
  /** false: no restart after a crash. */
  readonly restart?: boolean;
  readonly onState?: (state: ChildState) => void;
}

export interface EmbeddedClickHouse {
  /** With user and password of the service. */
  readonly url: string;
  /** undefined while it is down. */
  readonly pid: number | undefined;
  /** Running queries have some seconds to end. */
  stop(): Promise<void>;
}

/**
 * Resolves when ClickHouse answers.
 * @throws StartupError if the folder is in use or the port is taken
 */
export async function startClickHouse(spec: ClickHouseSpec): Promise<EmbeddedClickHouse> {
  const { port: wanted = 0, readable, analystSeconds = 60, restart, onState } = spec;
  const dir = resolve(spec.dir);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const child = await startChild<{ ready: true; url: string }>({
    name: 'ClickHouse',
    command: (last) => ({
      ...nodeCommand(
        SERVER,
        [
          dir,
          last ? new URL(last.url).port : String(wanted),
          String(analystSeconds),
          ...(readable ? [JSON.stringify(readable)] : []),
        ],
        { ...bareEnvironment(), UV_THREADPOOL_SIZE: String(ENGINE_THREADS) },
      ),
      cwd: dir, // chDB would read a config.xml of our working directory
    }),
    ready: readyOverIpc,
    ipc: true,
    output: 'tail',
    ...(restart === undefined ? {} : { restart }),
    ...(onState === undefined ? {} : { onState }),
  });
  return {
    url: child.ready.url,
    get pid() {
      return child.pid;
    },
    stop: child.stop,
  };
}
