// Embedded Redis for `start` and the tests: redis-server or valkey-server as a child process.
//
// It listens on a unix socket in its folder, or, if the socket's path is too long, on a loopback port with a random
// password. If the socket accepts connections before Redis is started, another server uses the folder.

import { randomBytes, randomInt } from 'node:crypto';
import { accessSync, constants, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartupError } from '../../errors.js';
import { bareEnvironment, type ChildState, GONE_MS, startChild } from './child.js';

const PROGRAMS = ['redis-server', 'valkey-server'];
const SOCKET = 'redis.sock';
/** The file with port and password, which `ps` would show on a command line. */
const LISTEN = 'listen.conf';
const SOCKET_PATH_BYTES = 100;
// The allocator's rounding costs 55 B per pending event in nodes of 4 KB, the default, and 9 B in nodes of 512 KB.
const STREAM_NODES = { 'stream-node-max-bytes': '524288' };

export interface RedisSpec {
  readonly dir: string;
  /** A loopback port to listen on instead of the socket. */
  readonly port?: number;
  readonly fsync?: 'everysec' | 'always';
  readonly restart?: boolean;
  readonly onState?: (state: ChildState) => void;
}

export interface EmbeddedRedis {
  readonly url: string;
  readonly pid: number | undefined;
  stop(): Promise<void>;
}

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
    readyMs: 600_000, // to load a large append-only file
    restart: spec.restart,
    onState: spec.onState,
  });
  return Object.assign(child, { url: embeddedRedisUrl(dir) });
}

export function embeddedRedisUrl(dir: string): string {
  let listen = '';
  try {
    listen = readFileSync(join(dir, LISTEN), 'utf8');
  } catch {
    // missing or unreadable
  }
  const [, port, password] = /^port ([1-9]\d*)\nrequirepass (\S+)$/m.exec(listen) ?? [];
  return port === undefined
    ? `redis://localhost/?path=${encodeURIComponent(join(dir, SOCKET))}`
    : `redis://:${password}@127.0.0.1:${port}`;
}

export function findRedis(): string {
  const { PATH = '' } = process.env;
  for (const name of PROGRAMS) {
    for (const folder of PATH.split(delimiter).filter(Boolean)) {
      const file = join(folder, name);
      try {
        accessSync(file, constants.X_OK);
        return file;
      } catch {
        // try the next folder
      }
    }
  }
  throw new StartupError(
    'Neither redis-server nor valkey-server is in PATH: install one (apt-get install redis-server, brew install redis) or set REDIS_URL.',
  );
}

// These ports are below the ephemeral ones (on Linux from 32,768), which an outgoing connection could take before Redis
// starts.
const FIRST_PORT = 31_000;
const PORTS = 1_700;

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
  // Waits, because the Redis of a killed parent syncs before it exits.
  const deadline = performance.now() + GONE_MS;
  const link = await mkdtemp(join(tmpdir(), 'wm-'));
  try {
    await symlink(dir, join(link, 'd'));
    while ((await ping({ path: join(link, 'd', SOCKET) })) !== undefined) {
      if (performance.now() > deadline) return true;
      await sleep(50);
    }
    return false;
  } finally {
    await rm(link, { recursive: true });
  }
}

type Address = { path: string } | { port: number; host: string; password?: string };

export async function untilLoaded(address: Address, ended: AbortSignal): Promise<void> {
  for (let waitMs = 2; !(await ping(address))?.includes('+PONG'); waitMs = Math.min(waitMs * 2, 100)) {
    await sleep(waitMs, undefined, { signal: ended });
  }
}

/** @returns the server's replies; undefined if nothing accepts connections */
function ping(address: Address): Promise<string | undefined> {
  const password = 'password' in address ? address.password : undefined;
  return new Promise((done) => {
    const socket: Socket = connect(address, () =>
      socket.write(`${password ? `AUTH ${password}\r\n` : ''}PING\r\n`),
    );
    let replies = '';
    socket.setTimeout(1_000, () => socket.destroy());
    socket
      .on('data', (data) => {
        replies += data;
        if (/^(-[^\n]*|\+PONG)\r\n/m.test(replies)) socket.destroy();
      })
      .once('error', () => done(undefined))
      .once('close', () => done(replies));
  });
}
