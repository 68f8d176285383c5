// One `wishmeter start` per data folder. The lock is a unix socket in the folder that the owner listens
// on, and not a file with a pid in it: the kernel closes it however the owner ends, and a pid that was
// given to another process (in a container, they all are small) is never taken for the owner.

import { mkdtemp, rm, symlink, unlink } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { StartupError } from '../../errors.js';

const SOCKET = 'start.sock';

/** The right to use the folder, until `release`. */
export interface Lock {
  release(): Promise<void>;
}

/** @throws StartupError that names the owner's pid where the folder is in use. */
export async function lockFolder(folder: string, pid: number): Promise<Lock> {
  // Paths of sockets end at about 100 bytes; through a short link any folder will do.
  const link = await mkdtemp(join(tmpdir(), 'wm-lock-'));
  try {
    await symlink(resolve(folder), join(link, 'd'));
    const path = join(link, 'd', SOCKET);
    const realPath = resolve(folder, SOCKET);
    // Asked only where the name is taken: of two that find the folder free the kernel lets one have it.
    const lock = await listen(path, realPath, pid);
    if (lock) return lock;
    const owner = await askOwner(path);
    if (owner === undefined) {
      await unlink(path).catch(() => {}); // what a killed owner left
      const inherited = await listen(path, realPath, pid);
      if (inherited) return inherited;
    }
    throw new StartupError(
      `Another \`wishmeter start\` (pid ${owner ?? (await askOwner(path))}) uses ${folder}; stop it or set another DATA_DIR.`,
    );
  } finally {
    await rm(link, { recursive: true });
  }
}

/** What the owner says, its pid; undefined where nobody listens. */
async function askOwner(path: string): Promise<string | undefined> {
  try {
    return await text(connect({ path }));
  } catch {
    return undefined;
  }
}

/** Undefined where there is a socket already, whether or not somebody listens on it. */
async function listen(path: string, realPath: string, pid: number): Promise<Lock | undefined> {
  const server = createServer((asking) => {
    asking.on('error', () => {}).end(String(pid));
  });
  const isOurs = await new Promise<boolean>((done, failed) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? done(false) : failed(error),
    );
    server.listen(path, () => done(true));
  });
  if (!isOurs) return undefined;
  server.unref();
  return {
    async release() {
      await new Promise((done) => server.close(done));
      await unlink(realPath).catch(() => {}); // `close` may have removed it already
    },
  };
}
