// `serve` behind the real nginx, as deploy/nginx.conf has it.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Wire } from '../harness/wire.js';
import { needsNginx, startNginx } from './nginx.js';
import { restartInTurn, startTwo } from './rolling-restart.js';
import { ask, putUnderLoad } from './shop-under-load.js';

const VISIT = JSON.stringify({ identity: { sessionId: 's' }, productHandle: 'x' });

t.test('behind nginx', needsNginx(), async (t) => {
  const { port, parts } = await startTwo(t, { TRUST_PROXY: '1', RATE_LIMIT: '5000' });
  const nginx = await startNginx(t, port);

  t.test('two that are restarted in turn, twice: no request fails', async (t) => {
    const load = putUnderLoad(nginx, 16);
    await sleep(300);
    for (let round = 0; round < 2; round++) await restartInTurn(parts);
    await sleep(300);
    t.ok((await load.expectExact(t)) > 500);
  });

  t.test('header lines with an empty name hide none of the others', async (t) => {
    for (const line of [': x', ':', ': content-length: 0', ' : x']) {
      const wire = await Wire.open(t, nginx);
      const headers = [
        `host: x`,
        line,
        `content-length: ${VISIT.length}`,
        'x-request-id: hidden',
        'connection: close',
      ];
      wire.send(`POST /product/visit HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n${VISIT}`);
      const said = await wire.ended();
      const isServed = said.startsWith('HTTP/1.1 200 ') && said.includes('x-request-id: hidden');
      t.ok(isServed || said.startsWith('HTTP/1.1 400 '), `${JSON.stringify(line)}: ${said}`);
    }
  });

  t.test('the one line that matters', async (t) => {
    const old = await startNginx(t, port, (conf) => conf.replace('proxy_http_version 1.1;', ''));
    t.equal((await ask(old, undefined, 'GET', '/healthz')).status, 505);
  });
});

t.test('RATE_LIMIT counts by the address of the client that called nginx', needsNginx(), async (t) => {
  const { port } = await startTwo(t, { TRUST_PROXY: '1', RATE_LIMIT: '1' });
  const nginx = await startNginx(t, port);
  const visits = async (from: string, headers: (i: number) => Record<string, string> = () => ({})) => {
    const all = Array.from({ length: 20 }, (_, i) =>
      ask(nginx, undefined, 'POST', '/product/visit', VISIT, headers(i), from),
    );
    return (await Promise.all(all)).map(({ status }) => status);
  };
  const forged = await visits('127.0.0.2', (i) => ({ 'x-forwarded-for': `203.0.113.${i}` }));
  t.ok(forged.includes(429), 'a forged X-Forwarded-For changes nothing');
  t.equal((await visits('127.0.0.3'))[0], 200, 'another address');
});
