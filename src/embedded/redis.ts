// Embedded Redis: a redis-server (or valkey-server) child process on a folder of its own, for `start`
// and the tests. Set up like the Redis that the README asks for in production: append-only file, noeviction.
//
// It listens on a unix socket in its folder. The socket is also the folder's lock: it answers for as long
// as a server has the folder, and what a kill -9 leaves of it answers nobody. Paths of sockets end at about
// 100 bytes; in a deeper folder clients use a loopback port, and the lock is asked through a short link.

import { accessSync, constants } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartupError } from '../errors.js';
import { type ChildState, startChild } from './child.js';

const PROGRAMS = ['redis-server', 'valkey-server'];
const SOCKET = 'redis.sock';
const SOCKET_PATH_BYTES = 100;
/** A server whose parent was just killed needs a moment to leave its folder. */
const LEAVE_MS = 1_500;
// Entries of the event stream are batches of lines, 14 KB where 27 events share one. A node of a stream holds 4 KB by
// default, so each had one of its own, and its rounding up by the allocator was 55 B of memory per pending event;
// in nodes of this size it is 9 B, for entries of 1 line 21 B, and appending costs the same.
const STREAM_NODES = { 'stream-node-max-bytes': '524288', 'stream-node-max-entries': '1000' };

export interface RedisSpec {
  /** Folder of its data; made if missing. */
  readonly dir: string;
  /** Loopback port; without it a unix socket in `dir`. */
  readonly port?: number;
  /** When appended commands are on disk: within a second, or before they are answered. */
  readonly fsync?: 'everysec' | 'always';
  /** false: once it has died it stays dead. */
  readonly restart?: boolean;
  readonly onState?: (state: ChildState) => void;
}

export interface EmbeddedRedis {
  /** `redis://localhost/?path=<socket>` or `redis://127.0.0.1:<port>`, for src/redis/client.ts. */
  readonly url: string;
  /** undefined while it is down. */
  readonly pid: number | undefined;
  /** SIGTERM: Redis syncs its append-only file and leaves. */
  stop(): Promise<void>;
}

/**
 * Starts Redis and resolves when it has loaded its data and answers.
 * @throws StartupError where no program is installed, the folder is in use, or it fails to start.
 */
export async function startRedis(spec: RedisSpec): Promise<EmbeddedRedis> {
  const file = findRedis();
  const dir = resolve(spec.dir);
  await mkdir(dir, { recursive: true });
  if (await isInUse(dir))
    throw new StartupError(`Another Redis is using ${dir}; stop it or set another DATA_DIR.`);

  const socket = join(dir, SOCKET);
  const fits = Buffer.byteLength(socket) <= SOCKET_PATH_BYTES;
  const port = spec.port ?? (fits ? 0 : await freePort());
  const args = Object.entries({
    dir: '.',
    port: String(port),
    bind: '127.0.0.1',
    unixsocket: SOCKET,
    unixsocketperm: '700',
    appendonly: 'yes',
    appendfsync: spec.fsync ?? 'everysec',
    save: '',
    'maxmemory-policy': 'noeviction',
    'hash-max-listpack-entries': '512',
    ...STREAM_NODES,
    loglevel: 'warning',
  }).flatMap(([name, value]) => [`--${name}`, value]);

  const child = await startChild({
    name: 'Redis',
    command: () => ({ file, args, cwd: dir }),
    ready: (_child, ended) => untilLoaded(port === 0 ? { path: socket } : { port, host: '127.0.0.1' }, ended),
    output: 'tail',
    readyMs: 600_000, // a large append-only file takes its time to load
    ...(spec.restart === undefined ? {} : { restart: spec.restart }),
    ...(spec.onState === undefined ? {} : { onState: spec.onState }),
  });
  return {
    url: port === 0 ? `redis://localhost/?path=${encodeURIComponent(socket)}` : `redis://127.0.0.1:${port}`,
    get pid() {
      return child.pid;
    },
    stop: child.stop,
  };
}

/** @throws StartupError where neither program is in PATH. */
export function findRedis(): string {
  const { PATH = '' } = process.env;
  for (const name of PROGRAMS) {
    for (const folder of PATH.split(delimiter).filter(Boolean)) {
      const file = join(folder, name);
      try {
        accessSync(file, constants.X_OK);
        return file;
      } catch {
        // not here
      }
    }
  }
  throw new StartupError(
    'Neither redis-server nor valkey-server is in PATH: install one (apt-get install redis-server, brew install redis) or set REDIS_URL.',
  );
}

/** A loopback port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}

async function isInUse(dir: string): Promise<boolean> {
  const deadline = performance.now() + LEAVE_MS;
  const link = await mkdtemp(join(tmpdir(), 'wm-'));
  try {
    await symlink(dir, join(link, 'd'));
    while (await accepts(join(link, 'd', SOCKET))) {
      if (performance.now() > deadline) return true;
      await sleep(50);
    }
    return false;
  } finally {
    await rm(link, { recursive: true });
  }
}

function accepts(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect({ path });
    socket.once('connect', () => done(true)).once('error', () => done(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** Asks PING until the answer is PONG: not there yet and "-LOADING" both mean to ask again. */
export async function untilLoaded(
  address: { path: string } | { port: number; host: string },
  ended: AbortSignal,
): Promise<void> {
  for (let waitMs = 2; !(await pings(address)); waitMs = Math.min(waitMs * 2, 100)) {
    await sleep(waitMs, undefined, { signal: ended });
  }
}

function pings(address: { path: string } | { port: number; host: string }): Promise<boolean> {
  return new Promise((done) => {
    const socket: Socket = connect(address, () => socket.write('PING\r\n'));
    const answer = (yes: boolean) => {
      socket.destroy();
      done(yes);
    };
    socket.setTimeout(1_000, () => answer(false));
    socket
      .once('data', (data) => answer(data.toString().startsWith('+PONG')))
      .once('error', () => answer(false));
  });
}
