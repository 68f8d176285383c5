// The parts of `start` on their own: the folder's lock, its key and the ports, before anything runs; and the order of a
// shutdown, under a clock that moves only when the test says so.

import { once } from 'node:events';
import { chmod, chown, link, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { ownApiKey } from '../../src/commands/start/api-key.js';
import { makeFolder } from '../../src/commands/start/folder.js';
import { lockFolder } from '../../src/commands/start/lock.js';
import { checkPorts } from '../../src/commands/start/ports.js';
import { type Clock, type ShutdownStep, shutdown } from '../../src/commands/start/shutdown.js';
import { tempDir } from './wishmeter.js';

t.test('a folder is locked once, however long its path, and free again after release', async (t) => {
  // Longer than a socket's path may be.
  const long = join(await tempDir(t), 'deep'.repeat(30), 'er'.repeat(60));
  await mkdir(long, { recursive: true });
  const dirs = [await tempDir(t), long];
  const temporary = await tempDir(t);
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = temporary;
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = TMPDIR;
  });
  for (const dir of dirs) {
    const lock = await lockFolder(dir, 4711);
    const taken = { name: 'StartupError', message: /\(pid 4711\) uses .*DATA_DIR/ };
    await t.rejects(lockFolder(dir, 4712), taken);
    await lock.release();
    await (await lockFolder(dir, 4712)).release();
  }
  t.same(await readdir(temporary), [], 'no temporary folder is left');
});

t.test('of several that lock a folder at one moment, one gets it', async (t) => {
  const shared: number[] = [];
  for (let round = 0; round < 24; round++) {
    const dir = await tempDir(t);
    if (round % 2 === 1) await leaveSocket(join(dir, 'start.sock'));
    let holders = 0;
    const want = async (pid: number) => {
      await sleep(Math.random() * (round % 5));
      const lock = await lockFolder(dir, pid);
      if (++holders > 1) shared.push(round);
      await sleep(20);
      holders--;
      await lock.release();
    };
    const wanted = await Promise.allSettled([1, 2, 3, 4].map(want));
    t.ok(
      wanted.some(({ status }) => status === 'fulfilled'),
      'one has it',
    );
    for (const one of wanted)
      if (one.status === 'rejected') t.match(one.reason, { name: 'StartupError', message: /pid [1-4]\b/ });
  }
  t.same(shared, [], 'rounds in which two had it at once');
});

/** A socket without a listener, as a kill -9 leaves it. */
async function leaveSocket(path: string): Promise<void> {
  const server = createServer().listen(`${path}.live`);
  await once(server, 'listening');
  await link(`${path}.live`, path);
  await new Promise((done) => server.close(done));
}

t.test('a folder that may not be written, or not be made, is refused in a sentence', async (t) => {
  const dir = await tempDir(t);
  const [unprivileged, own] = [65_534, process.geteuid?.()];
  if (own === 0) await chown(dir, unprivileged, unprivileged); // root may write everywhere
  await chmod(dir, 0o500);
  t.teardown(() => chmod(dir, 0o700));
  if (own === 0) process.seteuid?.(unprivileged);
  try {
    await t.rejects(makeFolder(dir), {
      name: 'StartupError',
      message: /written .*\(EACCES\); set another DATA_DIR/,
    });
  } finally {
    if (own === 0) process.seteuid?.(own);
  }
  await chmod(dir, 0o700);
  await makeFolder(dir);
  t.same(await readdir(dir), [], 'nothing is left of the try');
  for (const impossible of ['/proc/none/data', fileURLToPath(import.meta.url)])
    await t.rejects(makeFolder(impossible), { name: 'StartupError', message: /DATA_DIR/ }, impossible);
});

t.test('the folder is its owner’s alone, and refused where others may write it', async (t) => {
  const modeOf = async (dir: string) => (await stat(dir)).mode & 0o777;
  const fresh = join(await tempDir(t), 'a', 'b');
  await makeFolder(fresh);
  t.equal(await modeOf(fresh), 0o700);
  t.equal(await modeOf(join(fresh, '..')), 0o700, 'and so are the folders made above it');
  for (const mode of [0o755, 0o750, 0o711]) {
    const dir = await tempDir(t);
    await chmod(dir, mode);
    await makeFolder(dir);
    t.equal(await modeOf(dir), 0o700, `from ${mode.toString(8)}`);
  }
  for (const mode of [0o777, 0o770, 0o1777, 0o702]) {
    const dir = await tempDir(t);
    await chmod(dir, mode);
    await t.rejects(makeFolder(dir), {
      name: 'StartupError',
      message: /may be written by other users .*chmod 700/,
    });
    t.equal(await modeOf(dir), mode & 0o777, 'and left as it was');
  }
});

t.test('a key is made once, only for its owner; one that was put there is used, or refused', async (t) => {
  const dir = await tempDir(t);
  const file = join(dir, 'api-key');
  const key = await ownApiKey(dir);
  t.match(key, /^sk_[A-Za-z0-9_-]{43}$/);
  t.equal((await stat(file)).mode & 0o777, 0o600);
  t.equal(await ownApiKey(dir), key);
  t.equal(await readFile(file, 'utf8'), `${key}\n`);
  await writeFile(file, 'my-own-key-of-16+\n');
  t.equal(await ownApiKey(dir), 'my-own-key-of-16+');
  await writeFile(file, 'short');
  await t.rejects(ownApiKey(dir), { name: 'StartupError', message: /does not hold a key/ });
  t.equal(await readFile(file, 'utf8'), 'short', 'and not overwritten');
});

t.test('a taken port, and a foreign address, is one sentence that names the setting', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  t.teardown(() => other.close());
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const setting = 'PORT';
  for (const [host, message] of [
    ['127.0.0.1', `Port ${port} is taken; stop what listens there or set another PORT.`],
    ['0.0.0.0', `Port ${port} is taken; stop what listens there or set another PORT.`],
    ['203.0.113.7', '203.0.113.7 is not an address of this machine; set another HOST.'],
  ] as const)
    await t.rejects(checkPorts([{ host, port, setting }]), { name: 'StartupError', message }, host);
  const wanted = { host: '127.0.0.1', port: await freePort(), setting };
  await checkPorts([wanted]);
  await checkPorts([wanted]); // it was left free
  await t.rejects(checkPorts([wanted, { ...wanted, setting: 'DASHBOARD_PORT' }]), {
    message: `Port ${wanted.port} is taken; stop what listens there or set another DASHBOARD_PORT.`,
  });
});

/** A clock whose `pass` fires what is due. */
function manualClock(): Clock & { pass(ms: number): Promise<void> } {
  let now = 0;
  const timers = new Set<{ at: number; then: () => void }>();
  return {
    now: () => now,
    after(ms, then) {
      const timer = { at: now + ms, then };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async pass(ms) {
      now += ms;
      for (const timer of [...timers].filter(({ at }) => at <= now)) {
        timers.delete(timer);
        timer.then();
      }
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

/** A step that notes its start, and ends when `finish` is called. */
function heldStep(name: string, withinMs: number, begun: string[]) {
  let finish = () => {};
  const finished = new Promise<void>((done) => {
    finish = done;
  });
  const step: ShutdownStep = {
    name,
    withinMs,
    run: () => {
      begun.push(name);
      return finished;
    },
  };
  return { step, finish };
}

t.test('a step begins when the one before it has ended, or at the deadline of one that hangs', async (t) => {
  const clock = manualClock();
  const begun: string[] = [];
  const [serve, flush, redis] = ['serve', 'flush', 'redis'].map((name) => heldStep(name, 100, begun)) as [
    ReturnType<typeof heldStep>,
    ReturnType<typeof heldStep>,
    ReturnType<typeof heldStep>,
  ];
  const ended = shutdown([serve.step, flush.step, redis.step], clock);
  await clock.pass(10);
  t.same(begun, ['serve']);
  serve.finish();
  await clock.pass(0);
  t.same(begun, ['serve', 'flush']);
  await clock.pass(99);
  t.same(begun, ['serve', 'flush'], 'not before the deadline');
  await clock.pass(1);
  t.same(begun, ['serve', 'flush', 'redis']);
  redis.finish();
  t.same(await ended, [
    { name: 'serve', result: 'done', ms: 10 },
    { name: 'flush', result: 'timed out', ms: 100 },
    { name: 'redis', result: 'done', ms: 0 },
  ]);
});

t.test('a step that fails, at once or later, does not keep the next from running', async (t) => {
  const late = new Error('late');
  const early = new Error('early');
  const outcomes = await shutdown([
    { name: 'late', withinMs: 1_000, run: () => Promise.reject(late) },
    {
      name: 'early',
      withinMs: 1_000,
      run: () => {
        throw early;
      },
    },
    { name: 'last', withinMs: 1_000, run: async () => {} },
  ]);
  t.match(outcomes, [
    { name: 'late', result: 'failed', error: late },
    { name: 'early', result: 'failed', error: early },
    { name: 'last', result: 'done' },
  ]);
});

t.test('no timer is left behind by a shutdown that went well', async (t) => {
  let open = 0;
  const outcomes = await shutdown([{ name: 'only', withinMs: 60_000, run: async () => {} }], {
    now: () => 0,
    after: () => {
      open += 1;
      return () => {
        open -= 1;
      };
    },
  });
  t.equal(outcomes[0]?.result, 'done');
  t.equal(open, 0);
});
