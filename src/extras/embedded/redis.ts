// Embedded Redis for `start` and the tests: a redis-server (or valkey-server) child process with a data folder. Its settings
// are those that docs/operations.md asks for in production: append-only file, noeviction.
//
// Redis listens on a unix socket in its folder; only the owner may open it. A socket that accepts connections means that
// another server uses the folder. (`start` locks the folder, so two starts at the same time are not a case here.) Socket
// paths have a limit of about 100 bytes: in a deeper folder clients use a loopback port and a random password from a file
// that only the owner may read.

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
/** Config file with port and password: a command line would show the password in `ps`. */
const LISTEN = 'listen.conf';
const SOCKET_PATH_BYTES = 100;
// Stream entries are batches of lines: 14 KB for 27 events. With the default node size of 4 KB each entry had its own node,
// and the allocator's rounding cost 55 B per pending event; now 9 B. `stream-node-max-entries` stays at its default of 100: to
// claim or delete an entry Redis walks its node, and with 1,000 small entries 500 claims took 23 ms instead of 2.
const STREAM_NODES = { 'stream-node-max-bytes': '524288' };

export interface RedisSpec {
  /** Data folder; created if missing. */
  readonly dir: string;
  /** Loopback port; a unix socket in `dir` if absent. */
  readonly port?: number;
  /** Redis's appendfsync. */
  readonly fsync?: 'everysec' | 'always';
  /** false: no restart after a crash. */
  readonly restart?: boolean;
  readonly onState?: (state: ChildState) => void;
}

export interface EmbeddedRedis {
  /** `redis://localhost/?path=<socket>` or `redis://127.0.0.1:<port>`, for src/redis/client.ts. */
  readonly url: string;
  /** undefined while it is down. */
  readonly pid: number | undefined;
  /** SIGTERM: Redis syncs its append-only file and exits. */
  stop(): Promise<void>;
}

/**
 * Resolves when Redis has loaded its data.
 * @throws StartupError if no program is installed, the folder is in use, or Redis fails to start
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
    readyMs: 600_000, // to load a large append-only file
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

/** URL of the Redis in this folder: from its config file, else the socket. */
export function embeddedRedisUrl(dir: string): string {
  let listen = '';
  try {
    listen = readFileSync(join(dir, LISTEN), 'utf8');
  } catch {
    // never started, or not readable for us
  }
  const [, port, password] = /^port ([1-9]\d*)\nrequirepass (\S+)$/m.exec(listen) ?? [];
  return port === undefined
    ? `redis://localhost/?path=${encodeURIComponent(join(dir, SOCKET))}`
    : `redis://:${password}@127.0.0.1:${port}`;
}

/** @throws StartupError if neither program is in PATH */
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

// Below the ephemeral ports (from 32,768 on Linux): an outgoing connection could take one of those before the server starts.
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
  // The server of a killed parent syncs its data before it exits.
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

/** Sends PING until the reply is PONG; repeats it after a refused connection or "-LOADING". */
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
