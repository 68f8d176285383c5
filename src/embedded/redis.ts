// Embedded Redis: a redis-server (or valkey-server) child process on a folder of its own, for `start`
// and the tests. Set up like the Redis that docs/operations.md asks for in production: append-only file, noeviction.
//
// It listens on a unix socket in its folder, which only its owner may open. While that answers, a server has the folder:
// one that a killed parent left and that is about to go. (Two that start at one moment do not see each other here:
// `start` locks its folder first.) What a kill -9 leaves of the socket answers no connection. Paths of sockets end at about
// 100 bytes; in a deeper folder clients use a loopback port with a password of this start, which is in a file that
// only its owner may read, and the socket is asked through a short link.

import { randomBytes, randomInt } from 'node:crypto';
import { accessSync, constants, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartupError } from '../errors.js';
import { bareEnvironment, type ChildState, GONE_MS, startChild } from './child.js';

const PROGRAMS = ['redis-server', 'valkey-server'];
const SOCKET = 'redis.sock';
/** Port and password, where it listens on a port: as Redis reads them, never on its command line. */
const LISTEN = 'listen.conf';
const SOCKET_PATH_BYTES = 100;
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
  await mkdir(dir, { recursive: true, mode: 0o700 });
  if (await isInUse(dir))
    throw new StartupError(`Another Redis is using ${dir}; stop it or set another DATA_DIR.`);

  const socket = join(dir, SOCKET);
  const fits = Buffer.byteLength(socket) <= SOCKET_PATH_BYTES;
  const port = spec.port ?? (fits ? 0 : await freePort());
  const password = port === 0 ? '' : randomBytes(24).toString('base64url');
  const listen = join(dir, LISTEN);
  await rm(listen, { force: true });
  await writeFile(listen, `port ${port}\n${password && `requirepass ${password}\n`}`, {
    mode: 0o600,
    flag: 'wx',
  });
  const settings = Object.entries({
    dir: '.',
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
    command: () => ({ file, args: [LISTEN, ...settings], cwd: dir, env: bareEnvironment() }),
    ready: (_child, ended) =>
      untilLoaded(port === 0 ? { path: socket } : { port, host: '127.0.0.1', password }, ended),
    output: 'tail',
    readyMs: 600_000, // a large append-only file takes its time to load
    ...(spec.restart === undefined ? {} : { restart: spec.restart }),
    ...(spec.onState === undefined ? {} : { onState: spec.onState }),
  });
  return {
    url: embeddedRedisUrl(dir),
    get pid() {
      return child.pid;
    },
    stop: child.stop,
  };
}

/** Where a Redis on this folder listens; its socket where it has left nothing that says otherwise. */
export function embeddedRedisUrl(dir: string): string {
  let listen = '';
  try {
    listen = readFileSync(join(dir, LISTEN), 'utf8');
  } catch {
    // it has never run, or is not ours to read
  }
  const [, port, password] = /^port ([1-9]\d*)\nrequirepass (\S+)$/m.exec(listen) ?? [];
  return port === undefined
    ? `redis://localhost/?path=${encodeURIComponent(join(dir, SOCKET))}`
    : `redis://:${password}@127.0.0.1:${port}`;
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

// Below those that systems give to outgoing connections (from 32,768 on Linux): one of them could be given away between
// our look and the server's start.
const FIRST_PORT = 31_000;
const PORTS = 1_700;

/** A loopback port that was free a moment ago. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + randomInt(PORTS);
    const server = createServer();
    const isFree = await new Promise<boolean>((done) => {
      server.once('error', () => done(false)).listen(port, '127.0.0.1', () => done(true));
    });
    if (!isFree) continue;
    await new Promise((done) => server.close(done));
    return port;
  }
}

async function isInUse(dir: string): Promise<boolean> {
  // One whose parent was just killed has its data to sync before it leaves.
  const deadline = performance.now() + GONE_MS;
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

type Address = { path: string } | { port: number; host: string; password?: string };

/** Asks PING until the answer is PONG: not there yet and "-LOADING" both mean to ask again. */
export async function untilLoaded(address: Address, ended: AbortSignal): Promise<void> {
  for (let waitMs = 2; !(await pings(address)); waitMs = Math.min(waitMs * 2, 100)) {
    await sleep(waitMs, undefined, { signal: ended });
  }
}

function pings(address: Address): Promise<boolean> {
  const password = 'password' in address ? address.password : undefined;
  return new Promise((done) => {
    const socket: Socket = connect(address, () =>
      socket.write(`${password ? `AUTH ${password}\r\n` : ''}PING\r\n`),
    );
    const answer = (yes: boolean) => {
      socket.destroy();
      done(yes);
    };
    let replies = '';
    socket.setTimeout(1_000, () => answer(false));
    socket
      .on('data', (data) => {
        replies += data;
        if (/^(-[^\n]*|\+PONG)\r\n/m.test(replies)) answer(replies.includes('+PONG'));
      })
      .once('error', () => answer(false));
  });
}
