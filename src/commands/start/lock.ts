// One `wishmeter start` per data folder. The lock is a unix socket in the folder that the owner listens
// on, and not a file with a pid in it: the kernel closes it however the owner ends, and a pid that was
// given to another process (in a container, they all are small) is never taken for the owner.

import { lstat, mkdtemp, rm, symlink, unlink } from 'node:fs/promises';
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
    const owner = await askOwner(path);
    if (owner !== undefined) {
      throw new StartupError(
        `Another \`wishmeter start\` (pid ${owner}) uses ${folder}; stop it or set another DATA_DIR.`,
      );
    }
    await unlink(path).catch(() => {}); // what a killed owner left
    return await listen(path, resolve(folder, SOCKET), pid);
  } finally {
    await rm(link, { recursive: true });
  }
}

/** What the owner says, its pid; undefined where nobody listens. */
async function askOwner(path: string): Promise<string | undefined> {
  if (!(await lstat(path).catch(() => undefined))) return undefined;
  try {
    return await text(connect({ path }));
  } catch {
    return undefined;
  }
}

async function listen(path: string, realPath: string, pid: number): Promise<Lock> {
  const server = createServer((asking) => {
    asking.on('error', () => {}).end(String(pid));
  });
  await new Promise<void>((done, failed) => {
    server.once('error', failed).listen(path, done);
  });
  server.unref();
  return {
    async release() {
      await new Promise((done) => server.close(done));
      await unlink(realPath).catch(() => {}); // `close` may have removed it already
    },
  };
}
