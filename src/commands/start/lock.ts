// Locks a data folder for one `wishmeter start`. The owner listens on a unix socket, which the kernel closes when the
// owner dies. If all used one path, removing a dead owner's socket could remove a new owner's. So each contender listens
// on a socket of its own, and then asks the others:
//
//   listen ──▶ ask all others ──▶ none alive ──▶ owner: removes the dead ones
//     ▲               ├─ an owner ──▶ refused
//     │               └─ only contenders ──▶ the first by name asks again
//     └── step back ◀──── all others ┘

import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rename, rm, symlink, unlink } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartupError } from '../../errors.js';

const SOCKET = /^start\.[0-9a-f]+\.sock$/;
/** Milliseconds to answer. An owner that doesn't answer in time remains the owner. */
const ANSWER_MS = 5_000;
const CONTEND_MS = 10_000;
const PAUSE_MS = 10;

export interface Lock {
  release(): Promise<void>;
}

export async function lockFolder(folder: string, pid: number): Promise<Lock> {
  const inUse = (owner: string) =>
    new StartupError(
      `Another \`wishmeter start\` (pid ${owner}) uses ${folder}; stop it or set another DATA_DIR.`,
    );
  const deadline = performance.now() + CONTEND_MS;
  // A symbolic link to the folder, because a socket's path has at most about 100 bytes.
  const link = await mkdtemp(join(tmpdir(), 'wm-lock-'));
  try {
    const near = join(link, 'd');
    await symlink(resolve(folder), near);
    while (performance.now() < deadline) {
      const socket = await listen(near, resolve(folder), pid);
      try {
        if (await socket.isFirst(deadline)) return socket;
      } catch (error) {
        await socket.release();
        throw error instanceof OwnedError ? inUse(error.owner) : error;
      }
      await socket.release();
      await sleep(PAUSE_MS * (1 + Math.random()));
    }
    throw inUse('unknown');
  } finally {
    await rm(link, { recursive: true });
  }
}

class OwnedError extends Error {
  constructor(readonly owner: string) {
    super();
  }
}

interface Contender extends Lock {
  /** @returns false if another contender goes first @throws OwnedError */
  isFirst(deadline: number): Promise<boolean>;
}

/** Renames the socket once it listens, so a socket with that name that refuses connections is dead. */
async function listen(near: string, folder: string, pid: number): Promise<Contender> {
  let owns = false;
  const server = createServer((asking) => {
    asking.on('error', () => {}).end(owns ? String(pid) : '');
  });
  const name = `start.${randomBytes(4).toString('hex')}.sock`;
  const unnamed = join(near, name.replace('.sock', '.new'));
  await new Promise<void>((done, failed) => {
    server.once('error', failed).listen(unnamed, done);
  });
  await rename(unnamed, join(near, name));
  server.unref();
  return {
    async isFirst(deadline) {
      for (;;) {
        const others = (await readdir(near)).filter((other) => SOCKET.test(other) && other !== name);
        const answers = await Promise.all(others.map((other) => ask(join(near, other))));
        const owner = answers.find((answer) => answer);
        if (owner) throw new OwnedError(owner);
        const living = others.filter((_, i) => answers[i] === '');
        if (living.length === 0) {
          owns = true;
          await Promise.all(others.map((dead) => unlink(join(near, dead)).catch(() => {})));
          return true;
        }
        if (living.some((other) => other < name) || performance.now() > deadline) return false;
        await sleep(PAUSE_MS);
      }
    },
    async release() {
      await unlink(join(folder, name)).catch(() => {});
      await new Promise((done) => server.close(done));
    },
  };
}

/** @returns an owner's pid, or 'unknown' if it doesn't answer; '' for a contender; undefined if nothing listens */
async function ask(path: string): Promise<string | undefined> {
  const socket = connect({ path });
  const late = setTimeout(() => socket.destroy(new Error('silent')), ANSWER_MS);
  try {
    return await text(socket);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ECONNRESET') return ''; // That process is closing its socket; the caller asks again.
    return code === 'ECONNREFUSED' || code === 'ENOENT' ? undefined : 'unknown';
  } finally {
    clearTimeout(late);
  }
}
