// A stopping `serve` says so, answers on, and breaks no connection, by itself and behind the real nginx.

import { Agent } from 'node:http';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { ask } from '../harness/client.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';
import { needsNginx, startNginx } from './nginx.js';
import { restartUnderLoad, startServes } from './rolling-restart.js';
import { runWishmeter, until } from './wishmeter.js';

const redis = await startTestRedis(t);

const VISIT = JSON.stringify({ identity: { sessionId: 's' }, productHandle: 'x' });

const ASKED = [
  ['POST', '/product/visit', VISIT],
  ['GET', '/nowhere', ''],
  ['OPTIONS', '/product/visit', ''],
  ['HEAD', '/healthz', ''],
] as const;

t.test('a draining serve is not ready and keeps serving, and then closes its connections', async (t) => {
  const port = await freePort();
  const drainMs = 1_500;
  const env = { REDIS_URL: redis.url, HOST: '127.0.0.1', PORT: String(port), DRAIN_MS: String(drainMs) };
  const serving = runWishmeter(t, { args: ['serve'], env });
  await serving.logged('serving');
  const agent = keptConnection(t);
  t.match(await ask(port, 'GET', '/readyz', { agent }), { status: 200, headers: { connection: undefined } });
  const kept = ASKED.map((asked) => ({ asked, agent: keptConnection(t) }));

  const signalledAt = performance.now();
  serving.child.kill('SIGTERM');
  const unready = await until('it is not ready, and still answers', async () => {
    const answer = await ask(port, 'GET', '/readyz', { agent });
    return answer.status === 503 && answer;
  });
  t.match(unready, {
    headers: { connection: undefined },
    text: /^\{"error":"Not ready: the process is stopping\."/,
  });
  t.equal((await ask(port, 'POST', '/product/visit', { body: VISIT })).status, 200, 'it takes connections');
  const last = await Promise.all(
    kept.map(async ({ asked: [method, path, body], agent }) => {
      let answer: Awaited<ReturnType<typeof ask>>;
      do answer = await ask(port, method, path, { body, agent });
      while (answer.headers.connection === undefined);
      return {
        name: `${method} ${path}`,
        connection: answer.headers.connection,
        ms: performance.now() - signalledAt,
      };
    }),
  );
  for (const { name, connection, ms } of last) {
    t.equal(connection, 'close', name);
    t.ok(ms >= drainMs, `${name} kept its connection until then`);
  }
  await t.rejects(ask(port, 'GET', '/healthz'), { code: 'ECONNREFUSED' });
  t.match(await serving.ended, { code: 0, stderr: '' });
});

function keptConnection(t: Test): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  return agent;
}

t.test('a second signal ends the drain of serve at once', async (t) => {
  const env = { REDIS_URL: redis.url, HOST: '127.0.0.1', PORT: '0', DRAIN_MS: '30000' };
  const serving = runWishmeter(t, { args: ['serve'], env });
  for (const said of ['serving', 'stopping']) {
    await serving.logged(said);
    serving.child.kill('SIGTERM');
  }
  t.match(await serving.ended, { code: 143 }, 'not 0, as when the drain has ended');
});

t.test(
  'two serve processes on one port are restarted in turn, and kept connections notice nothing',
  async (t) => {
    const port = await freePort();
    await restartUnderLoad(t, port, await startServes(t, [port, port]));
  },
);

t.test('serve behind nginx', needsNginx(), async (t) => {
  const port = await freePort();
  await startServes(t, [port], { TRUST_PROXY: '1', RATE_LIMIT: '5' });
  const nginx = await startNginx(t, port);

  t.test('a header line with an empty name hides no other header behind nginx', async (t) => {
    for (const line of [': x', ':', ': content-length: 0', ' : x']) {
      const wire = await Wire.open(t, nginx);
      const length = `content-length: ${VISIT.length}`;
      const headers = ['host: x', line, length, 'x-request-id: hidden', 'connection: close'];
      wire.send(`POST /product/visit HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n${VISIT}`);
      const said = await wire.ended();
      const isServed = said.startsWith('HTTP/1.1 200 ') && said.includes('x-request-id: hidden');
      t.ok(isServed || said.startsWith('HTTP/1.1 400 '), `${JSON.stringify(line)}: ${said}`);
    }
  });

  t.test('nginx without proxy_http_version 1.1 gets 505 from serve', async (t) => {
    const old = await startNginx(t, port, (conf) => conf.replace('proxy_http_version 1.1;', ''));
    t.equal((await ask(old, 'GET', '/healthz')).status, 505);
  });

  t.test("RATE_LIMIT behind nginx counts by the address of nginx's client", async (t) => {
    const visits = async (from: string, headers: (i: number) => Record<string, string> = () => ({})) => {
      const all = Array.from({ length: 20 }, (_, i) =>
        ask(nginx, 'POST', '/product/visit', { body: VISIT, headers: headers(i), from }),
      );
      return (await Promise.all(all)).map(({ status }) => status);
    };
    const forged = await visits('127.0.0.2', (i) => ({ 'x-forwarded-for': `203.0.113.${i}` }));
    t.ok(forged.includes(429), 'a forged X-Forwarded-For changes nothing');
    t.equal((await visits('127.0.0.3'))[0], 200, 'another address');
  });
});
