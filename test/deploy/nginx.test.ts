// The real nginx with deploy/nginx.conf before two `serve`: one that hangs costs seconds and no read, no write is repeated, and
// slow operations cost no visit.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { needsNginx, startNginx } from '../cli/nginx.js';
import { startServes } from '../cli/rolling-restart.js';
import { KEY } from '../faults/service.js';
import { makeCertificate } from '../harness/certificates.js';
import { ask } from '../harness/client.js';
import { listen } from '../harness/listen.js';
import { ITEM } from '../harness/shop.js';

const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
const identity = { sessionId: 's-1' };
/** An address of this machine that nginx takes for a stranger's. */
const STRANGER = '127.0.0.2';

t.test('nginx with deploy/nginx.conf', needsNginx(), async (t) => {
  const ports = [await freePort(), await freePort()];
  const parts = await startServes(t, ports, { RECEIVERS_PRIVATE: 'allow' });
  const nginx = await startNginx(t, ports);
  const post = (path: string, body: object, more = {}) =>
    ask(nginx, 'POST', path, { body, headers: { ...headers, ...more } });
  const statusOf = async (method: string, path: string, body?: object) =>
    (await ask(nginx, method, path, { headers, body })).status;

  await t.test('nginx shows metrics and readiness only to this machine', async (t) => {
    for (const path of ['/metrics', '/readyz', '//metrics', '/%6detrics', '/x/../readyz']) {
      t.equal((await ask(nginx, 'GET', path, { from: STRANGER })).status, 403, path);
      t.not((await ask(nginx, 'GET', path)).status, 403, path);
    }
    t.equal((await ask(nginx, 'GET', '/healthz', { from: STRANGER })).status, 200);
    t.match(await ask(nginx, 'GET', '/metrics'), { status: 200, text: /wishmeter_redis_up 1/ });
  });

  await t.test(
    'nginx compresses large answers for clients that accept gzip, and hides its version',
    async (t) => {
      for (let n = 0; n < 30; n++)
        t.equal((await post('/item/add', { identity, ...ITEM, productId: String(n) })).status, 200);
      const list = (encoding: object) => post('/item/list', { identity }, encoding);
      const plain = await list({});
      t.match(plain, { status: 200, headers: { 'content-encoding': undefined, server: 'nginx' } });
      const small = await list({ 'accept-encoding': 'gzip' });
      t.match(small, { status: 200, headers: { 'content-encoding': 'gzip', vary: /Accept-Encoding/ } });
      t.ok(small.text.length * 4 < plain.text.length);
    },
  );

  await t.test('while receivers are slow, nginx passes every visit on and repeats no request', async (t) => {
    let deliveries = 0;
    const silent = createServer(() => {
      deliveries++;
    });
    const url = `http://127.0.0.1:${await listen(t, silent)}/`;
    t.teardown(() => silent.closeAllConnections());
    const made = await post('/receivers', { url, types: ['add'] });
    const tests = Array.from({ length: 8 }, () => post(`/receivers/${made.json.id}/test`, {}));
    let isOver = false;
    const answers = Promise.all(tests).finally(() => {
      isOver = true;
    });
    const visit = { identity: { sessionId: 's-slow' }, productHandle: 'red-shoe' };
    const statuses = new Set<number>();
    while (!isOver) statuses.add(await statusOf('POST', '/product/visit', visit));
    t.same([...statuses], [200]);
    for (const answer of await answers) t.match(answer, { status: 200, text: /"error":"no answer in 15 s"/ });
    t.equal(deliveries, 8);
  });

  await t.test('nginx repeats reads at the other serve while one hangs, and repeats no write', async (t) => {
    const [frozen] = parts;
    process.kill(frozen?.pid as number, 'SIGSTOP');
    t.teardown(() => process.kill(frozen?.pid as number, 'SIGCONT'));
    const visit = { identity: { sessionId: 's-2' }, productHandle: 'red-shoe' };
    const asked = Array.from({ length: 20 }, () => statusOf('POST', '/product/visit', visit));
    const visits = await Promise.all(asked);
    t.same([...new Set(visits)].sort(), [200, 504], 'a visit goes to one process, and may get no answer');
    const query = `?sessionId=s-1&productHandle=${ITEM.productHandle}`;
    const reads = Array.from({ length: 20 }, () => statusOf('GET', `/product/visit${query}`));
    const products = [{ productId: '1' }];
    const lists = ['list', 'check', 'count'].flatMap((name) =>
      Array.from({ length: 8 }, () => statusOf('POST', `/item/${name}`, { identity, products })),
    );
    const puts = Array.from({ length: 4 }, () =>
      statusOf('PUT', '/settings', { autoRemoveAfterPurchase: true }),
    );
    t.same([...new Set(await Promise.all([...reads, ...lists, ...puts]))], [200]);

    const once = { ...visit, identity: { sessionId: 's-3' } };
    const keyed = await Promise.all(
      Array.from({ length: 6 }, async (_, n) => {
        const key = { 'idempotency-key': `visit-${n}` };
        for (;;) if ((await post('/product/visit', once, key)).status === 200) return 200;
      }),
    );
    t.equal(keyed.length, 6);
    process.kill(frozen?.pid as number, 'SIGCONT');
    // This answer comes after everything that waited at the hanging serve.
    for (const port of ports)
      t.equal((await ask(port, 'GET', `/product/visit${query}`, { headers })).status, 200);
    const count = async (sessionId: string) =>
      JSON.parse(
        (await ask(nginx, 'GET', `/product/visit?sessionId=${sessionId}&productHandle=red-shoe`, { headers }))
          .text,
      ).count;
    t.equal(await count('s-3'), 6, 'each under its key once');
    t.ok((await count('s-2')) <= visits.length, 'none twice');
  });
});

t.test('nginx serves HTTPS with the TLS lines of deploy/nginx.conf', needsNginx(), async (t) => {
  const { authority, certificate, key } = await makeCertificate(t, 'DNS:localhost');
  const port = await freePort();
  await startServes(t, [port]);
  const tls = await freePort();
  const plain = await startNginx(t, port, (conf) => {
    const lines = conf.replace(/^( +)# (listen 443|ssl_)/gm, '$1$2').replace('443', `127.0.0.1:${tls}`);
    t.equal(lines.match(/^ +ssl_\w+ /gm)?.length, 4);
    return lines.replace(/\/etc\S+fullchain\.pem/, certificate).replace(/\/etc\S+privkey\.pem/, key);
  });
  t.equal((await ask(plain, 'GET', '/healthz')).status, 200);
  const status = await new Promise((resolve, reject) => {
    const at = { host: 'localhost', family: 4, port: tls, path: '/healthz' };
    const options = { ...at, ca: readFileSync(authority), agent: false as const };
    const asked = request(options, async (answer) => {
      await text(answer);
      resolve(answer.statusCode);
    });
    asked.on('error', reject).end();
  });
  t.equal(status, 200);
});

t.test('nginx accepts 15 KB of cookies, and passes none on to serve', needsNginx(), async (t) => {
  const echo = createServer((req, res) => void res.end(JSON.stringify(req.headers)));
  const nginx = await startNginx(t, await listen(t, echo));
  const cookie = Array.from({ length: 15 }, (_, n) => `c${n}=${'x'.repeat(1_000)}`);
  for (const path of ['/product/visit', '/item/list', '/receivers', '/metrics']) {
    const { status, json } = await ask(nginx, 'GET', path, { headers: { cookie } });
    t.match([status, json.host, json.cookie], [200, '127.0.0.1', undefined], path);
  }
});
