// A supervised child process: its start, its restarts, its end, and that it does not outlive its parent.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type ChildSpec, type ChildState, readyOverIpc, startChild } from '../../src/embedded/child.js';
import { StartupError } from '../../src/errors.js';
import { groupIsAlive, groupOf, happens, kill9, startParent } from './processes.js';

const sh = (script: string) => ({ file: '/bin/sh', args: ['-c', script] });
const node = (script: string) => ({ file: process.execPath, args: ['-e', script] });

/** A program that says `up`, and what becomes of it. */
const observed = (script: string, more: Partial<ChildSpec<number>> = {}) => {
  const states: ChildState[] = [];
  let starts = 0;
  const spec: ChildSpec<number> = {
    name: 'thing',
    command: () => sh(script),
    ready: (child, ended) =>
      new Promise((up, failed) => {
        child.stdout?.once('data', () => up(++starts));
        ended.addEventListener('abort', () => failed(ended.reason));
      }),
    output: 'tail',
    onState: (state) => states.push(state),
    ...more,
  };
  return { spec, states, names: () => states.map(({ state }) => state) };
};

const WAIT = 'echo up; exec sleep 60';

t.test('a Node child is ready when it says so, with what it says', async (t) => {
  const child = await startChild<{ ready: true; port: number }>({
    name: 'thing',
    command: () => node('process.send({ ready: true, port: 7 }); setInterval(() => {}, 1000)'),
    ready: readyOverIpc,
    ipc: true,
  });
  t.equal(child.ready.port, 7);
  await child.stop();
  t.equal(child.pid, undefined);
});

t.test('the sentence of a child that cannot start is the error, word for word', async (t) => {
  const starting = startChild({
    name: 'thing',
    command: () => node("process.send({ failed: 'Port 1 is taken.' }); setInterval(() => {}, 1000)"),
    ready: readyOverIpc,
    ipc: true,
  });
  await t.rejects(starting, new StartupError('Port 1 is taken.'));
});

t.test('a child that ends before it is ready fails the start, with its last words', async (t) => {
  const { spec, states } = observed('echo no such luck >&2; exit 3', { ready: () => new Promise(() => {}) });
  const failing = startChild({
    ...spec,
    ready: (_, ended) => new Promise((_, no) => ended.addEventListener('abort', () => no(ended.reason))),
  });
  await t.rejects(failing, new StartupError('thing did not start: exit code 3: no such luck.'));
  t.equal(states.length, 1, 'and it is not tried again');
});

t.test('a child that is not ready in time is ended, and fails the start', async (t) => {
  let pid = 0;
  const starting = startChild({
    name: 'thing',
    command: () => sh('exec sleep 60'),
    ready: (_, ended) => new Promise((_, no) => ended.addEventListener('abort', () => no(ended.reason))),
    readyMs: 200,
    onState: (state) => {
      if (state.state === 'starting') pid = state.pid ?? 0;
    },
  });
  await t.rejects(starting, new StartupError('thing did not start: not ready after 0.2 s.'));
  t.ok(await happens(() => !groupIsAlive(pid)));
});

t.test('a program that is not there fails the start', async (t) => {
  const { spec } = observed('');
  const starting = startChild({
    ...spec,
    command: () => ({ file: '/nowhere/thing', args: [] }),
    ready: (_, ended) => new Promise((_, no) => ended.addEventListener('abort', () => no(ended.reason))),
  });
  await t.rejects(starting, { name: 'StartupError', message: /did not start: exit code 127: .*not found/ });
});

t.test('a child that dies is started again, and told what it was when it was ready', async (t) => {
  const lasts: (number | undefined)[] = [];
  const { spec, states, names } = observed(WAIT);
  const child = await startChild({
    ...spec,
    command: (last) => {
      lasts.push(last);
      return sh(WAIT);
    },
  });
  const first = child.pid ?? 0;
  process.kill(first, 'SIGKILL');
  t.ok(await happens(() => child.ready === 2));
  t.not(child.pid, first);
  t.strictSame(lasts, [undefined, 1]);
  t.match(states[2], { state: 'died', reason: 'SIGKILL: up' });
  await child.stop();
  t.strictSame(names(), ['starting', 'ready', 'died', 'starting', 'ready', 'stopped']);
});

t.test('restarts back off: each wait may be longer than the one before', async (t) => {
  const { spec, states } = observed('echo up; exit 1');
  const child = await startChild(spec);
  t.ok(await happens(() => states.filter(({ state }) => state === 'died').length >= 4));
  await child.stop();
  const waits = states.flatMap((s) => (s.state === 'died' ? [s.restartInMs] : []));
  for (const [i, ceiling] of [100, 200, 400, 800].entries()) {
    const wait = waits[i] ?? 0;
    t.ok(wait >= ceiling / 2 && wait <= ceiling, `${wait} is between ${ceiling / 2} and ${ceiling}`);
  }
});

t.test('stop during the back-off ends it: nothing is started any more', async (t) => {
  const { spec, names } = observed('echo up; exit 1');
  const child = await startChild(spec);
  t.ok(await happens(() => names().includes('died')));
  await child.stop();
  const count = names().length;
  await sleep(500);
  t.equal(names().length, count);
});

t.test('with restart off, a child that died stays dead, and stop still resolves', async (t) => {
  const { spec, names } = observed(WAIT, { restart: false });
  const child = await startChild(spec);
  process.kill(child.pid ?? 0, 'SIGKILL');
  t.ok(await happens(() => child.pid === undefined));
  await sleep(400);
  await child.stop();
  t.strictSame(names(), ['starting', 'ready', 'stopped']);
});

t.test('stop is SIGTERM first: the child may finish what it does', async (t) => {
  const { spec, states } = observed('trap "exit 0" TERM; echo up; while :; do sleep 0.1; done');
  const child = await startChild(spec);
  const pid = child.pid ?? 0;
  await Promise.all([child.stop(), child.stop()]);
  t.match(states.at(-1), { state: 'stopped', killed: false });
  t.ok(await happens(() => !groupIsAlive(pid)), 'its watcher is gone, too');
});

t.test('stop is SIGKILL after the deadline of that child', async (t) => {
  const stubborn = `trap '' TERM; echo up; while :; do sleep 0.1; done`;
  const { spec, states } = observed(stubborn, { stopMs: 200 });
  const [child, patient] = await Promise.all([
    startChild(spec),
    startChild(observed(stubborn, { stopMs: 600_000 }).spec),
  ]);
  let isPatientStopped = false;
  const stopping = patient.stop().then(() => {
    isPatientStopped = true;
  });
  await child.stop();
  t.match(states.at(-1), { state: 'stopped', killed: true });
  t.notOk(isPatientStopped, 'one with a later deadline runs on');
  process.kill(patient.pid ?? 0, 'SIGKILL');
  await stopping;
});

t.test('what is stopped has left nothing: its watcher is gone, too', async (t) => {
  const child = await startChild(observed(WAIT).spec);
  const pid = child.pid ?? 0;
  const watcher = groupOf(pid).find((member) => member !== pid) ?? 0;
  process.kill(watcher, 'SIGSTOP');
  let hasStopped = false;
  const stopping = child.stop().then(() => {
    hasStopped = true;
  });
  t.ok(await happens(() => !groupOf(pid).includes(pid)), 'the program has ended');
  await sleep(50);
  t.notOk(hasStopped);
  process.kill(watcher, 'SIGCONT');
  await stopping;
  t.same(groupOf(pid), []);
});

t.test('a child leads a process group of its own, so that Ctrl-C does not reach it', async (t) => {
  const { spec } = observed(WAIT);
  const child = await startChild(spec);
  t.ok(groupIsAlive(child.pid ?? 0));
  await child.stop();
});

t.test(
  'kill -9 of the parent ends a child that ignores SIGTERM at its deadline, and its watcher',
  async (t) => {
    const [soon, late] = await Promise.all([
      startParent('stubborn', '1000'),
      startParent('stubborn', '600000'),
    ]);
    t.ok(groupIsAlive(soon.pid));
    await Promise.all([kill9(soon.parent), kill9(late.parent)]);
    t.ok(await happens(() => !groupIsAlive(soon.pid)));
    t.ok(groupIsAlive(late.pid), 'one with a later deadline runs on');
    process.kill(-late.pid, 'SIGKILL');
    t.ok(await happens(() => !groupIsAlive(late.pid)));
  },
);
