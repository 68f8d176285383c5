// ClickHouse for tests: the embedded one on a free port, in a temp folder that goes with it.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type ClickHouseSpec,
  type EmbeddedClickHouse,
  startClickHouse,
} from '../../src/embedded/clickhouse.js';

/** Any number may run side by side; a `dir` of the caller's is left alone at the end. */
export async function startTestClickHouse(
  spec: Partial<ClickHouseSpec> = {},
): Promise<EmbeddedClickHouse & { readonly dir: string }> {
  const dir = spec.dir ?? (await mkdtemp(join(tmpdir(), 'wm-clickhouse-')));
  const server = await startClickHouse({ ...spec, dir });
  return {
    url: server.url,
    dir,
    get pid() {
      return server.pid;
    },
    async stop() {
      await server.stop();
      if (spec.dir === undefined) await rm(dir, { recursive: true, force: true });
    },
  };
}

/** A URL with credentials, as fetch wants it: without, and the header that has them. */
export function forFetch(url: string): { readonly origin: string; readonly headers: Record<string, string> } {
  const { origin, username, password } = new URL(url);
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { origin, headers: { authorization: `Basic ${Buffer.from(pair).toString('base64')}` } };
}
