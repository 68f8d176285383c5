// Supervised children, the embedded ClickHouse among them: start, restart, and nothing left after each kind of end.

import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { StartupError } from '../../../src/errors.js';
import {
  type ChildSpec,
  type ChildState,
  readyOverIpc,
  startChild,
} from '../../../src/extras/embedded/child.js';
import { startClickHouse } from '../../../src/extras/embedded/clickhouse/start.js';
import { forFetch } from '../../harness/clickhouse.js';
import { listen } from '../../harness/listen.js';
import { until } from '../../harness/until.js';
import { groupIsAlive, kill9, outsideAddress, startParent } from './processes.js';

const root = await mkdtemp(join(tmpdir(), 'wm-embedded-clickhouse-'));
t.teardown(() => rm(root, { recursive: true, force: true }));
let folders = 0;
const freshDir = () => join(root, String(++folders));

// A second ClickHouse in a folder waits as long as a killed parent's query may run; other tests run meanwhile.
const usedDir = freshDir();
const first = await startClickHouse({ dir: usedDir });
t.teardown(() => first.stop());
const second = startClickHouse({ dir: usedDir }).catch((error: unknown) => error);

const sh = (script: string) => ({ file: '/bin/sh', args: ['-c', script] });

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

t.test('a Node child says that it is ready, or why it cannot start', async (t) => {
  const saying = (message: string): ChildSpec<{ ready: true; port: number }> => ({
    name: 'thing',
    command: () => ({
      file: process.execPath,
      args: ['-e', `process.send(${message}); setInterval(() => {}, 1000)`],
    }),
    ready: readyOverIpc,
    ipc: true,
  });
  const child = await startChild(saying('{ ready: true, port: 7 }'));
  t.equal(child.ready.port, 7);
  await child.stop();
  t.equal(child.pid, undefined);
  await t.rejects(startChild(saying("{ failed: 'Port 1 is taken.' }")), new StartupError('Port 1 is taken.'));
});

t.test('a child that never gets ready fails the start with the reason, and is not retried', async (t) => {
  const never: Partial<ChildSpec<number>> = {
    ready: (_, ended) => new Promise((_, no) => ended.addEventListener('abort', () => no(ended.reason))),
  };
  const failing = observed('echo no such luck >&2; exit 3', never);
  const reason = new StartupError('thing did not start: exit code 3: no such luck.');
  await t.rejects(startChild(failing.spec), reason);
  t.same(failing.names(), ['starting']);
  const slow = observed('exec sleep 60', { ...never, readyMs: 200 });
  await t.rejects(startChild(slow.spec), new StartupError('thing did not start: not ready after 0.2 s.'));
  const [begun] = slow.states;
  const pid = begun?.state === 'starting' ? (begun.pid ?? 0) : 0;
  await until('it is gone', () => !groupIsAlive(pid));
  const nowhere = { ...never, command: () => ({ file: '/nowhere/thing', args: [] }) };
  await t.rejects(startChild(observed('', nowhere).spec), {
    name: 'StartupError',
    message: /did not start: exit code 127: .*not found/,
  });
});

t.test('a child that dies is started again with its last ready value', async (t) => {
  const lasts: (number | undefined)[] = [];
  const { spec, states, names } = observed(WAIT);
  const child = await startChild({
    ...spec,
    command: (last) => {
      lasts.push(last);
      return sh(WAIT);
    },
  });
  const first = child.pid as number;
  process.kill(first, 'SIGKILL');
  await until('it is ready again', () => child.ready === 2);
  t.not(child.pid, first);
  t.strictSame(lasts, [undefined, 1]);
  t.match(states[2], { state: 'died', reason: 'SIGKILL: up' });
  await child.stop();
  t.strictSame(names(), ['starting', 'ready', 'died', 'starting', 'ready', 'stopped']);
});

t.test('a failed restart of a child is reported with its start error, not with its signal', async (t) => {
  const { spec, states } = observed(WAIT);
  let starts = 0;
  const child = await startChild({
    ...spec,
    async ready() {
      if (++starts === 2) throw new StartupError('Redis holds another deployment.');
      return starts;
    },
  });
  process.kill(child.pid as number, 'SIGKILL');
  await until('it is ready again', () => child.ready === 3);
  const reasons = states.flatMap((s) => (s.state === 'died' ? [s.reason] : []));
  t.match(reasons, [/^SIGKILL/, /^Redis holds another deployment\.$/]);
  await child.stop();
});

t.test(
  'if a ready child reports a failure and then exits, the failure is the reason that is reported',
  async (t) => {
    const reasons: string[] = [];
    const script = `process.send({ ready: true });
    setTimeout(() => process.send({ failed: 'Redis lost its data.' }, () => process.exit(1)), 100)`;
    const child = await startChild({
      name: 'thing',
      command: () => ({ file: process.execPath, args: ['-e', script] }),
      ready: readyOverIpc,
      ipc: true,
      onState: (state) => void (state.state === 'died' && reasons.push(state.reason)),
    });
    await until('it has ended', () => reasons.length > 0);
    await child.stop();
    t.equal(reasons[0], 'Redis lost its data.');
  },
);

t.test('restarts of a child back off with jitter, and a stop ends the waiting', async (t) => {
  const { spec, states, names } = observed('echo up; exit 1');
  const child = await startChild(spec);
  await until('it has died four times', () => states.filter(({ state }) => state === 'died').length >= 4);
  await child.stop();
  t.same(names().slice(-2), ['died', 'stopped'], 'nothing is started any more');
  const waits = states.flatMap((s) => (s.state === 'died' ? [s.restartInMs] : []));
  for (const [i, ceiling] of [100, 200, 400, 800].entries()) {
    const wait = waits[i] ?? 0;
    t.ok(wait >= ceiling / 2 && wait <= ceiling, `${wait} is between ${ceiling / 2} and ${ceiling}`);
  }
});

t.test('stop kills a stubborn child after its own deadline', async (t) => {
  const stubborn = `trap '' TERM; echo up; while :; do sleep 0.1; done`;
  const { spec, states } = observed(stubborn, { stopMs: 200 });
  const later = observed(stubborn, { stopMs: 600_000 }).spec;
  const [child, patient] = await Promise.all([startChild(spec), startChild(later)]);
  let isPatientStopped = false;
  const stopping = patient.stop().then(() => {
    isPatientStopped = true;
  });
  await child.stop();
  t.match(states.at(-1), { state: 'stopped', killed: true });
  t.notOk(isPatientStopped, 'one with a later deadline runs on');
  process.kill(patient.pid as number, 'SIGKILL'); // 0 would be this test and all around it
  await stopping;
});

t.test('kill -9 of the parent ends a stubborn child at its deadline', async (t) => {
  const start = (stopMs: string) => startParent('stubborn', stopMs);
  const [soon, late] = await Promise.all([start('1000'), start('600000')]);
  t.ok(groupIsAlive(soon.pid));
  await Promise.all([kill9(soon.parent), kill9(late.parent)]);
  await until('it is gone', () => !groupIsAlive(soon.pid));
  t.ok(groupIsAlive(late.pid), 'one with a later deadline runs on');
  process.kill(-late.pid, 'SIGKILL');
  await until('it is gone', () => !groupIsAlive(late.pid));
});

async function ask(url: string, sql: string): Promise<string> {
  const { origin, headers } = forFetch(url);
  const answer = await fetch(origin, { method: 'POST', body: sql, headers });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return text.trimEnd();
}

/** Running queries, including this one. */
const RUNNING = 'SELECT count() FROM system.processes';

t.test('ClickHouse listens on loopback only, and a stop waits for its running query', async (t) => {
  const clickhouse = await startClickHouse({ dir: freshDir() });
  t.equal(new URL(clickhouse.url).hostname, '127.0.0.1');
  const outside = outsideAddress();
  if (outside) await t.rejects(fetch(`http://${outside}:${new URL(clickhouse.url).port}/ping`));
  const running = ask(clickhouse.url, 'SELECT sleep(1.5)');
  // A query that is still arriving would be refused.
  await until('it runs', async () => (await ask(clickhouse.url, RUNNING)) === '2');
  const stopping = clickhouse.stop();
  t.equal(await running, '0');
  await stopping;
  await t.rejects(ask(clickhouse.url, 'SELECT 1'), 'a new query is not taken');
});

t.test('ClickHouse refuses an unusable folder and a taken port with the reason', async (t) => {
  const dir = freshDir();
  await mkdir(dir);
  await writeFile(join(dir, 'config'), 'a file where a folder has to be');
  await t.rejects(startClickHouse({ dir }), {
    name: 'StartupError',
    message: `ClickHouse did not start: exit code 1: EEXIST: file already exists, mkdir '${dir}/config'.`,
  });
  const port = await listen(t, createServer());
  await t.rejects(startClickHouse({ dir: freshDir(), port }), {
    name: 'StartupError',
    message: `Port ${port} of 127.0.0.1 is taken; set another CLICKHOUSE_PORT.`,
  });
});

t.test('kill -9 of the parent leaves no ClickHouse running after the last query', async (t) => {
  const dir = freshDir();
  const { parent, pid, url } = await startParent('clickhouse', dir);
  await ask(url, 'CREATE DATABASE wishmeter');
  const last = ask(url, 'SELECT sum(sleepEachRow(1)) FROM numbers(2) SETTINGS max_block_size = 1');
  await until('it runs', async () => (await ask(url, RUNNING)) === '2');
  await writeFile(join(dir, 'bodies', 'left'), 'rows of a visitor');
  await kill9(parent);
  const next = await startClickHouse({ dir });
  t.equal(await last, '0');
  t.equal(await ask(next.url, "SELECT count() FROM system.databases WHERE name = 'wishmeter'"), '1');
  await until('it is gone', () => !groupIsAlive(pid));
  t.same(await readdir(join(dir, 'bodies')), [], 'nor rows of an insert');
  await next.stop();
});

t.test('a second ClickHouse in a folder is refused', async (t) => {
  t.match(await second, {
    name: 'StartupError',
    message:
      /^ClickHouse did not start: exit code 1: [^|]*Another server instance [^|]+ already running[^|]+\| Failed to create connection [^|]+\.$/,
  });
});
