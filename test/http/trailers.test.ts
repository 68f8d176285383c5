// Trailers of a chunked body. uWebSockets.js takes them for the next request and answers that one with 505, so a request
// with trailers is refused before anything is done: a client sends again what was answered with 505.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';
const redis = await startTestRedis();
t.teardown(() => redis.stop());
const app = await startApp(t, redis);

const chunked = (sessionId: string, trailers: string) => {
  const body = JSON.stringify({ identity: { sessionId }, productHandle: 'x' });
  return [`${body.length.toString(16)}\r\n${body}\r\n`, `0\r\n${trailers}\r\n`] as const;
};
const head = (headers = '') =>
  `POST ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: ${TRUSTED.authorization}\r\ntransfer-encoding: chunked\r\n${headers}\r\n`;
const countOf = async (sessionId: string) =>
  (await app.get(withQuery(PATH, { sessionId, productHandle: 'x' }))).json.count;

t.test('a request that announces a trailer is refused, and nothing is done', async (t) => {
  for (const name of ['Trailer', 'trailer']) {
    for (const isWhole of [true, false]) {
      const wire = await Wire.open(t, app.port);
      const [body, last] = chunked('announced', 'x-sum: 1\r\n');
      wire.send(head(`${name}: x-sum\r\n`));
      if (!isWhole) await sleep(20);
      wire.send(body);
      if (!isWhole) t.match(await wire.next(), { status: 400, body: /trailer/ });
      wire.send(last);
      t.match(await wire.ended(), /^$|^HTTP\/1\.1 (400|505) /);
    }
  }
  t.equal(await countOf('announced'), 0);
});

t.test('trailers that come with the last chunk, unannounced, are refused, and nothing is done', async (t) => {
  const wire = await Wire.open(t, app.port);
  wire.send(head() + chunked('unannounced', 'x-sum: 1\r\n').join(''));
  t.match(await wire.ended(), /^HTTP\/1\.1 505 /);
  t.equal(await countOf('unannounced'), 0);
  const apart = await Wire.open(t, app.port);
  const [body, last] = chunked('unannounced', 'x-sum: 1\r\n');
  apart.send(head() + body);
  await sleep(50);
  apart.send(last);
  t.match(await apart.ended(), /^HTTP\/1\.1 505 /);
  t.equal(await countOf('unannounced'), 0);
});

t.test('chunked bodies without trailers go on: whole, in pieces, one after the other', async (t) => {
  const wire = await Wire.open(t, app.port);
  const [body, last] = chunked('plain', '');
  wire.send(head() + body + last);
  t.match(await wire.next(), { status: 200 });
  wire.send(head() + body);
  await sleep(20);
  wire.send(last);
  t.match(await wire.next(), { status: 200 });
  t.equal(await countOf('plain'), 2);
});
