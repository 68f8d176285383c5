// Embedded ClickHouse for `start` and the tests: a child process, because only one process can open chDB's folder.

import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { bareEnvironment, type ChildState, nodeCommand, readyOverIpc, startChild } from '../child.js';
import type { Readable } from './access.js';
import { ENGINE_THREADS } from './engine.js';

const SERVER = new URL('./server.js', import.meta.url);

export interface ClickHouseSpec {
  readonly dir: string;
  readonly readable?: Readable;
  readonly analystSeconds?: number;
  /** Loopback port. 0, the default, takes a free one, which is kept across restarts. */
  readonly port?: number;
  readonly restart?: boolean;
  readonly onState?: (state: ChildState) => void;
}

export interface EmbeddedClickHouse {
  readonly url: string;
  readonly pid: number | undefined;
  stop(): Promise<void>;
}

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
      cwd: dir, // chDB reads a config.xml in the working directory
    }),
    ready: readyOverIpc,
    ipc: true,
    output: 'tail',
    restart,
    onState,
  });
  return Object.assign(child, { url: child.ready.url });
}
