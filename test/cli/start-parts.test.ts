// What `start` does before anything runs: the folder's lock, its key, the ports.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { ownApiKey } from '../../src/commands/start/api-key.js';
import { lockFolder } from '../../src/commands/start/lock.js';
import { claimPorts } from '../../src/commands/start/ports.js';
import { tempDir } from './wishmeter.js';

t.test('a folder is locked once, and free again after release', async (t) => {
  const dir = await tempDir(t);
  const lock = await lockFolder(dir, 4711);
  await t.rejects(lockFolder(dir, 4712), { name: 'StartupError', message: /\(pid 4711\) uses .*DATA_DIR/ });
  await lock.release();
  const next = await lockFolder(dir, 4712);
  await next.release();
});

t.test('of those that want a folder at the same moment one has it', async (t) => {
  for (let round = 0; round < 20; round++) {
    const dir = await tempDir(t);
    const wanted = await Promise.allSettled([1, 2, 3, 4].map((pid) => lockFolder(dir, pid)));
    const had = wanted.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    t.equal(had.length, 1);
    await Promise.all(had.map((lock) => lock.release()));
  }
});

t.test('the lock works in a folder whose path is longer than a socket may have', async (t) => {
  const dir = join(await tempDir(t), 'deep'.repeat(30), 'er'.repeat(60));
  await mkdir(dir, { recursive: true });
  const lock = await lockFolder(dir, 1);
  await t.rejects(lockFolder(dir, 2), { name: 'StartupError' });
  await lock.release();
});

t.test('a lock whose owner was killed blocks nobody', async (t) => {
  const dir = await tempDir(t);
  const module = new URL('../../src/commands/start/lock.js', import.meta.url);
  const code = `import { lockFolder } from '${module}';
    await lockFolder(${JSON.stringify(dir)}, process.pid);
    console.log('locked'); setInterval(() => {}, 1000);`;
  const owner = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(owner.stdout, 'data');
  await t.rejects(lockFolder(dir, 1), { message: new RegExp(`pid ${owner.pid}\\b`) });
  owner.kill('SIGKILL');
  await once(owner, 'exit');
  t.ok((await stat(join(dir, 'start.sock'))).isSocket(), 'its socket is still there');
  const lock = await lockFolder(dir, 1);
  await lock.release();
});

t.test('a key is made once, is long, and only its owner may read it', async (t) => {
  const dir = await tempDir(t);
  const key = await ownApiKey(dir);
  t.match(key, /^sk_[A-Za-z0-9_-]{43}$/);
  t.equal((await stat(join(dir, 'api-key'))).mode & 0o777, 0o600);
  t.equal(await ownApiKey(dir), key);
  t.equal(await readFile(join(dir, 'api-key'), 'utf8'), `${key}\n`);
});

t.test('a key that was put there is used; what is no key is refused, not overwritten', async (t) => {
  const dir = await tempDir(t);
  await writeFile(join(dir, 'api-key'), 'my-own-key-of-16+\n');
  t.equal(await ownApiKey(dir), 'my-own-key-of-16+');
  await writeFile(join(dir, 'api-key'), 'short');
  await t.rejects(ownApiKey(dir), { name: 'StartupError', message: /does not hold a key/ });
  t.equal(await readFile(join(dir, 'api-key'), 'utf8'), 'short');
});

t.test('a taken port is one sentence that names the port and the setting', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  t.teardown(() => other.close());
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  await t.rejects(claimPorts([{ host: '127.0.0.1', port, setting: 'PORT' }]), {
    name: 'StartupError',
    message: `Port ${port} is taken; stop what listens there or set another PORT.`,
  });
  await t.rejects(
    claimPorts([{ host: '0.0.0.0', port, setting: 'PORT' }]),
    { name: 'StartupError' },
    'also when it is taken on one address only',
  );
});

t.test('0 takes free ports, all different, and leaves them free', async (t) => {
  const any = { host: '127.0.0.1', port: 0, setting: 'PORT' };
  const ports = await claimPorts([any, any, any]);
  t.equal(new Set(ports).size, 3);
  t.same(await claimPorts(ports.map((port) => ({ ...any, port }))), ports);
});

t.test('an address that this machine does not have is one sentence', async (t) => {
  await t.rejects(claimPorts([{ host: '203.0.113.7', port: 0, setting: 'PORT' }]), {
    name: 'StartupError',
    message: '203.0.113.7 is not an address of this machine; set another HOST.',
  });
});
