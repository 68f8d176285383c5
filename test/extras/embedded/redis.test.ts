// The embedded Redis: its settings, who reaches it, and why a start fails.

import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import t from 'tap';
import { embeddedRedisUrl, startRedis } from '../../../src/extras/embedded/redis.js';
import { connectRedis } from '../../../src/redis/client.js';
import { startTestRedis } from '../../harness/redis.js';
import { outsideAddress } from './processes.js';

type Started = Awaited<ReturnType<typeof startRedis>>;

const root = await mkdtemp(join(tmpdir(), 'wm-embedded-redis-'));
t.teardown(() => rm(root, { recursive: true, force: true }));
let folders = 0;
const freshDir = () => join(root, String(++folders));

const connect = (urls: readonly string[]) => connectRedis({ urls, name: 'test', timeoutMs: 2_000 }, () => {});

async function ask(url: string, command: string, ...args: string[]): Promise<unknown> {
  const client = (await connect([url])) as Redis;
  try {
    return await client.call(command, ...args);
  } finally {
    client.disconnect();
  }
}

// Two used folders, one too deep for a socket's path. A second server tries for ten seconds; other tests run meanwhile.
const deep = join(freshDir(), 'd'.repeat(120));
const used = [freshDir(), deep];
for (const dir of used) await mkdir(dir, { recursive: true });
const [first, second] = (await Promise.all(used.map((dir) => startRedis({ dir })))) as [Started, Started];
t.teardown(() => Promise.all([first.stop(), second.stop()]));
const refused = used.map((dir) => startRedis({ dir }).catch((error: unknown) => error));

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connectTcp({ host, port });
    const answer = (yes: boolean) => {
      socket.destroy();
      done(yes);
    };
    socket.once('connect', () => answer(true)).once('error', () => answer(false));
  });
}

t.test('the embedded Redis is append-only, evicts nothing and makes no snapshots', async (t) => {
  const redis = await startTestRedis(t, { fsync: 'always' });
  const expected = {
    appendonly: 'yes',
    appendfsync: 'always',
    save: '',
    'maxmemory-policy': 'noeviction',
    'hash-max-listpack-entries': '512',
    port: '0',
    bind: '127.0.0.1',
    unixsocketperm: '700',
  };
  for (const [name, value] of Object.entries(expected))
    t.strictSame(await ask(redis.url, 'CONFIG', 'GET', name), [name, value]);
  t.match(redis.url, /^redis:\/\/localhost\/\?path=/);
  t.equal((await stat(join(redis.dir, 'redis.sock'))).mode & 0o077, 0, 'its socket is its owner’s');
  for (const name of await readdir(redis.dir, { recursive: true }))
    t.equal((await stat(join(redis.dir, name))).mode & 0o077, 0, name);
});

t.test(
  'the embedded Redis listens on loopback with a password if its folder is too deep for a socket',
  async (t) => {
    const { url, pid } = second;
    t.match(url, /^redis:\/\/:[\w-]{32}@127\.0\.0\.1:\d+$/);
    t.equal(embeddedRedisUrl(deep), url, 'for `wishmeter dead`, which has only the folder');
    const { host, port, password } = new URL(url);
    await t.rejects(ask(`redis://${host}`, 'GET', 'k'), /NOAUTH/, 'not without its password');
    await t.rejects(ask(`redis://:x${password}@${host}`, 'GET', 'k'), /WRONGPASS|NOAUTH/);
    t.equal((await stat(join(deep, 'listen.conf'))).mode & 0o777, 0o600);
    t.notMatch(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''), password);
    const outside = outsideAddress();
    if (outside) t.equal(await accepts(outside, Number(port)), false, 'on loopback only');
  },
);

t.test('a start without a Redis program says in one sentence what to install', async (t) => {
  const { PATH } = process.env;
  t.teardown(() => {
    process.env.PATH = PATH;
  });
  process.env.PATH = root;
  await writeFile(join(root, 'redis-server'), '', { mode: 0o644 }); // no program
  await t.rejects(startRedis({ dir: freshDir() }), {
    name: 'StartupError',
    message: /^Neither redis-server nor valkey-server is in PATH: install one/,
  });
});

t.test("data that Redis cannot load fail the start with Redis's first words on it", async (t) => {
  const dir = freshDir();
  const files = join(dir, 'appendonlydir');
  await (await startRedis({ dir })).stop();
  const [last = ''] = (await readdir(files)).filter((name) => name.endsWith('.incr.aof'));
  // As after a power cut.
  await appendFile(join(files, last), Buffer.alloc(4_096));
  const bad =
    /^Redis did not start: exit code 1: Bad file format reading the append only file .*redis-check-aof --fix/;
  await t.rejects(startRedis({ dir }), { name: 'StartupError', message: bad });
  await rm(files, { recursive: true });
  await mkdir(join(files, 'appendonly.aof.manifest'), { recursive: true });
  const message = /^Redis did not start: exit code 1: .*manifest/s;
  await t.rejects(startRedis({ dir }), { name: 'StartupError', message });
});

t.test('a folder that another Redis uses is refused, even if it is too deep for a socket', async (t) => {
  for (const [i, dir] of used.entries())
    t.match(await refused[i], { message: `Another Redis is using ${dir}; stop it or set another DATA_DIR.` });
  for (const { url } of [first, second]) t.equal(await ask(url, 'PING'), 'PONG');
});
