// Bodies that arrive in pieces are bounded all together: those of webhooks are held before anything is known of their sender.

import { createHmac } from 'node:crypto';
import t from 'tap';
import { startApp } from '../harness/app.js';
import { SECRET } from '../harness/app-proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { Wire } from '../harness/wire.js';

const MiB = 1024 * 1024;
/** Bytes that all bodies may have together. */
const LIMIT = 64 * MiB;
const SENDERS = 100;

t.test('of unsigned bodies beyond the limit the oldest are refused, and a signed one is taken', async (t) => {
  const app = await startApp(t, await startTestRedis(t), { env: { SHOPIFY_SECRET: SECRET } });
  const unsigned = Buffer.alloc(MiB - 1, ' ');
  const wires: Wire[] = [];
  for (let i = 0; i < SENDERS; i++) {
    const wire = await Wire.open(t, app.port);
    wire.sendHead('POST', '/webhook/purchase', {
      'x-shopify-hmac-sha256': `${'A'.repeat(43)}=`,
      'content-length': String(MiB),
    });
    await new Promise((resolve) => wire.socket.write(unsigned, resolve));
    wires.push(wire);
  }
  const refused = () => app.figure('http_refused_total{code="overloaded",why="bodies"}');
  const least = SENDERS - LIMIT / MiB;
  await until('the oldest are refused', async () => Number(await refused()) >= least);
  t.match(await wires[0]?.next(), { status: 503, headers: { 'retry-after': '1' }, body: /"overloaded"/ });
  t.ok(Number(await app.figure('http_open_requests')) <= LIMIT / MiB);

  const order = JSON.stringify({ id: 1, line_items: [], note: 'x'.repeat(MiB / 2) });
  const signature = createHmac('sha256', SECRET).update(order).digest('base64');
  const answer = await app.post('/webhook/purchase', order, { 'x-shopify-hmac-sha256': signature });
  t.equal(answer.status, 200, answer.text);
  for (const wire of wires) wire.socket.destroy();
  await until('all are forgotten', async () => (await app.figure('http_open_requests')) === 0);
  const again = await app.post('/webhook/purchase', order, { 'x-shopify-hmac-sha256': signature });
  t.equal(again.status, 200);
});
