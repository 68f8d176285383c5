// Embedded ClickHouse: starts server.ts, a process that answers ClickHouse's HTTP interface over
// chDB, for `start` and the tests. chDB lets one process open a folder; that process is this one, and
// all others use HTTP, as they would with a server.

import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { bareEnvironment, type ChildState, nodeCommand, readyOverIpc, startChild } from '../child.js';
import type { Readable } from './access.js';
import { ENGINE_THREADS } from './engine.js';

const SERVER = new URL('./server.js', import.meta.url);

export interface ClickHouseSpec {
  /** Folder of its data; made if missing. */
  readonly dir: string;
  /** What the user `analyst` may SELECT; nothing where it is left out. */
  readonly readable?: Readable;
  /** Seconds that a statement of `analyst` or `dashboard` may run; 60 where it is left out. */
  readonly analystSeconds?: number;
  /** Loopback port; 0, the default, takes a free one and keeps it over restarts. */
  readonly port?: number;
  /** false: once it has died it stays dead. */
  readonly restart?: boolean;
  readonly onState?: (state: ChildState) => void;
}

export interface EmbeddedClickHouse {
  /** With the service's user and its password, which is new where the folder has no `service-url`. */
  readonly url: string;
  /** undefined while it is down. */
  readonly pid: number | undefined;
  /** Running queries end first, for some seconds. */
  stop(): Promise<void>;
}

/**
 * Starts ClickHouse and resolves when it answers.
 * @throws StartupError where the folder is in use, or the port is taken.
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
      cwd: dir, // chDB reads a config.xml that it finds where it is started
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
