// How `wishmeter start` ends: in order, at once, or killed; and that nothing is left of it, whichever.

import t from 'tap';
import { needsProc } from '../harness/needs.js';
import { findProcess, processesOf } from './processes.js';
import { client, logLines, nothingLeft, started, startSettings } from './started.js';
import { spawnWishmeter, tempDir, until } from './wishmeter.js';

t.test('it stops in the order that loses nothing', needsProc(), async (t) => {
  const dir = await tempDir(t);
  const { stop } = await started(t, dir, { LOG_LEVEL: 'debug', WORKERS: '2' });
  t.equal((await processesOf(dir)).filter(({ title }) => title.startsWith('wishmeter serve')).length, 2);
  const { code, stdout } = await stop();
  t.equal(code, 0);
  const stopped = logLines(stdout).flatMap(({ msg, child }) => (msg === 'child stopped' ? [child] : []));
  t.same(stopped.slice(0, 2).sort(), ['serve 1', 'serve 2']);
  t.same(stopped.slice(2), ['dashboard', 'flush', 'clickhouse', 'redis']);
});

t.test('a second signal stops everything at once, also what hangs', needsProc(), async (t) => {
  const dir = await tempDir(t);
  const { running } = await started(t, dir);
  const flush = await until('flush is there', () => findProcess(dir, /^wishmeter flush/));
  process.kill(flush.pid, 'SIGSTOP');
  running.child.kill('SIGTERM');
  await until('serve has stopped', async () => !(await findProcess(dir, /^wishmeter serve/)));
  running.child.kill('SIGTERM');
  t.match(await running.ended, { code: 143 }, 'not 0, as when all have stopped in order');
  await nothingLeft(dir); // guards look once a second
});

t.test('kill -9 of start leaves nothing behind and blocks no later start', needsProc(), async (t) => {
  const dir = await tempDir(t);
  const { running, url } = await started(t, dir);
  t.equal((await client(url, '').visit('s-1', 'red-shoe')).status, 200);
  running.child.kill('SIGKILL');
  await running.ended;
  await nothingLeft(dir);
  const next = await started(t, dir);
  t.equal(await client(next.url, '').count('s-1', 'red-shoe'), 1);
  t.equal((await next.stop()).code, 0);
});

t.test('a signal while it starts ends it in order', needsProc(), async (t) => {
  const dir = await tempDir(t);
  const running = spawnWishmeter({ args: ['start'], env: startSettings(dir) });
  await until('clickhouse is on its way', () => findProcess(dir, /clickhouse/));
  running.child.kill('SIGTERM');
  t.match(await running.ended, { code: 0, stderr: '' });
  t.same(await processesOf(dir), []);
});
