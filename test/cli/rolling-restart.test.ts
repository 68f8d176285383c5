// `serve` told to stop: it says so, answers on, and breaks no connection.

import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { startTestRedis } from '../harness/redis.js';
import { restartInTurn, startTwo } from './rolling-restart.js';
import { ask, putUnderLoad } from './shop-under-load.js';
import { runWishmeter, STOPPED_ONCE_READY, spawnWishmeter, until } from './wishmeter.js';

const VISIT = JSON.stringify({ identity: { sessionId: 's' }, productHandle: 'x' });

const ASKED = [
  ['POST', '/product/visit', VISIT],
  ['GET', '/nowhere', ''],
  ['OPTIONS', '/product/visit', ''],
  ['HEAD', '/healthz', ''],
] as const;

t.test(
  'one that drains is not ready and goes on; then it takes no connection and closes those it has',
  async (t) => {
    const redis = await startTestRedis();
    t.teardown(() => redis.stop());
    const port = await freePort();
    const drainMs = 3_000;
    const env = { REDIS_URL: redis.url, HOST: '127.0.0.1', PORT: String(port), DRAIN_MS: String(drainMs) };
    const serving = runWishmeter(t, { args: ['serve'], env });
    await until('it serves', () => serving.stdout().includes('"serving"'));
    const agent = keptConnection(t);
    t.match(await ask(port, agent, 'GET', '/readyz'), { status: 200, connection: undefined });
    const kept = ASKED.map((asked) => ({ asked, agent: keptConnection(t) }));

    const told = performance.now();
    serving.child.kill('SIGTERM');
    const unready = await until('it is not ready, and still answers', async () => {
      const answer = await ask(port, agent, 'GET', '/readyz');
      return answer.status === 503 && answer;
    });
    t.match(unready, { connection: undefined, body: /^\{"error":"Not ready: the process is stopping\."/ });
    t.equal(
      (await ask(port, undefined, 'POST', '/product/visit', VISIT)).status,
      200,
      'it takes connections',
    );
    const last = await Promise.all(
      kept.map(async ({ asked: [method, path, body], agent }) => {
        let answer: Awaited<ReturnType<typeof ask>>;
        do answer = await ask(port, agent, method, path, body);
        while (answer.connection === undefined);
        return { name: `${method} ${path}`, connection: answer.connection, ms: performance.now() - told };
      }),
    );
    for (const { name, connection, ms } of last) {
      t.equal(connection, 'close', name);
      t.ok(ms >= drainMs, `${name} kept its connection until then`);
    }
    await t.rejects(ask(port, undefined, 'GET', '/healthz'), { code: 'ECONNREFUSED' });
    t.match(await serving.ended, { code: 0, stderr: '' });
  },
);

function keptConnection(t: Test): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  return agent;
}

t.test('a second signal ends the drain at once', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const env = { REDIS_URL: redis.url, HOST: '127.0.0.1', PORT: '0', DRAIN_MS: '30000' };
  const serving = spawnWishmeter({ args: ['serve'], env });
  await until('it serves', () => serving.stdout().includes('"serving"'));
  serving.child.kill('SIGTERM');
  await until('it is told', () => serving.stdout().includes('"stopping"'));
  serving.child.kill('SIGTERM');
  t.match(await serving.ended, { code: 143 }, 'not 0, as when the drain has ended');
});

t.test('a signal in the moment in which it says that it serves stops it in order', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const env = { REDIS_URL: redis.url, HOST: '127.0.0.1', PORT: '0', DRAIN_MS: '0', ...STOPPED_ONCE_READY };
  const { ended } = runWishmeter(t, { args: ['serve'], env });
  t.match(await ended, { code: 0, signal: null, stdout: /"stopping"/, stderr: '' });
});

t.test(
  'two on one port, restarted in turn, twice: clients that keep connections notice nothing',
  async (t) => {
    const { port, parts } = await startTwo(t);
    const load = putUnderLoad(port, 16);
    await sleep(300);
    for (let round = 0; round < 2; round++) await restartInTurn(parts);
    await sleep(300);
    t.ok((await load.expectExact(t)) > 500);
  },
);
