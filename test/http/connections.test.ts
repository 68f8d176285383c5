// Connections: requests in a row, clients that leave, and a server that closes while it is at work.

import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startApp, withQuery } from '../harness/app.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';

t.test('connections', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis);
  const openRequests = async () => {
    return Number(/^wishmeter_http_open_requests (\d+)$/m.exec(await app.figures())?.[1]);
  };

  t.test('requests that were sent without waiting are answered in their order', async (t) => {
    const wire = await Wire.open(t, app.port);
    const wrong = '{"identity":{}}';
    for (let i = 0; i < 50; i++) {
      wire.sendHead('POST', PATH, { 'content-length': String(wrong.length), 'x-request-id': `r${i}` });
      wire.send(wrong);
      wire.sendHead('GET', '/nowhere', { 'x-request-id': `n${i}` });
    }
    for (let i = 0; i < 50; i++) {
      t.match(await wire.next(), { status: 400, headers: { 'x-request-id': `r${i}` } });
      t.match(await wire.next(), { status: 404, headers: { 'x-request-id': `n${i}` } });
    }
  });

  t.test('an empty body is complete, wherever the head was cut on its way', async (t) => {
    const line = 'DELETE /product/visit?sessionId=empty&productHandle=x HTTP/1.1\r\n';
    const head = `${line}host: x\r\ncontent-length: 0\r\n\r\n`;
    let closed = 0;
    // Cut within the request line, uWebSockets.js may take it for another version of HTTP: 505.
    for (let cut = line.length; cut <= head.length; cut++) {
      const wire = await Wire.open(t, app.port);
      wire.socket.setNoDelay(true);
      wire.send(head.slice(0, cut));
      await sleep(2);
      wire.send(head.slice(cut));
      const first = await wire.next();
      t.match(first, { status: 200 }, `cut at ${cut}`);
      wire.send(head);
      const after = await wire.next();
      const isClosed = first?.headers['connection'] === 'close';
      if (isClosed) closed++;
      t.equal(
        after?.status,
        isClosed ? undefined : 200,
        'the next one is answered unless the first said close',
      );
    }
    t.ok(closed < head.length - line.length + 1, 'a head in one piece closes nothing');
  });

  t.test(
    'a request whose first line was cut on its way is counted once, or it is 505 and never',
    async (t) => {
      const visit = JSON.stringify({ identity: { sessionId: 'cut' }, productHandle: 'x' });
      const line = `POST ${PATH} HTTP/1.1\r\n`;
      const rest = `host: x\r\ncontent-type: application/json\r\ncontent-length: ${visit.length}\r\n\r\n${visit}`;
      let counted = 0;
      for (let cut = 1; cut <= line.length; cut++) {
        const wire = await Wire.open(t, app.port);
        wire.socket.setNoDelay(true);
        wire.send(line.slice(0, cut));
        await sleep(2);
        wire.send(line.slice(cut) + rest);
        const answer = await wire.next({ withoutBody: true });
        if (answer?.status === 200) counted++;
        else t.match(answer, { status: 505, headers: { connection: 'close' } }, `cut at ${cut}`);
      }
      t.ok(counted > 0);
      const { json } = await app.get(withQuery(PATH, { sessionId: 'cut', productHandle: 'x' }));
      t.equal(json.count, counted);
    },
  );

  // uWebSockets.js does not take a request while the one before it waits for Redis: it drops the connection.
  t.test('a request on the heels of one that waits for Redis is never answered out of order', async (t) => {
    const visit = JSON.stringify({ identity: { sessionId: 'pipeline' }, productHandle: 'x' });
    const tries = 50;
    const answered: string[] = [];
    for (let i = 0; i < tries; i++) {
      const wire = await Wire.open(t, app.port);
      for (const id of ['first', 'second']) {
        wire.sendHead('POST', PATH, { 'content-length': String(visit.length), 'x-request-id': id });
        wire.send(visit);
      }
      // In pieces of TCP of its own the second may come when the first is answered; then both are, in their order.
      const ids: unknown[] = [];
      for (let answer = await wire.next(); answer !== undefined; ) {
        t.equal(answer.status, 200);
        ids.push(answer.headers['x-request-id']);
        answer = ids.length === 2 ? undefined : await wire.next();
      }
      answered.push(ids.join());
    }
    t.same(
      answered.filter((ids) => !['', 'first', 'first,second'].includes(ids)),
      [],
    );
    const acknowledged = answered.reduce((sum, ids) => sum + ids.split(',').filter(Boolean).length, 0);
    const { json } = await app.get(withQuery(PATH, { sessionId: 'pipeline', productHandle: 'x' }));
    t.ok(json.count >= Math.max(1, acknowledged) && json.count <= 2 * tries, `${json.count} were counted`);
  });

  t.test(
    'a client that leaves in the middle of its body is forgotten, and nothing of it is done',
    async (t) => {
      const visit = JSON.stringify({ identity: { sessionId: 'leaver' }, productHandle: 'x' });
      const heads = [
        { 'content-length': String(visit.length + 1) },
        { 'content-length': '60000' },
        { 'transfer-encoding': 'chunked' },
      ];
      const sockets = heads.flatMap((head) =>
        Array.from({ length: 20 }, () => {
          const socket = connect({ port: app.port, host: '127.0.0.1' });
          const [[name, value] = []] = Object.entries(head);
          socket.write(`POST ${PATH} HTTP/1.1\r\nhost: x\r\n${name}: ${value}\r\n\r\n`);
          socket.write(value === 'chunked' ? `${visit.length.toString(16)}\r\n${visit}\r\n` : visit);
          return socket;
        }),
      );
      await until('all have begun', async () => (await openRequests()) >= 60);
      for (const socket of sockets) socket.destroy();
      await until('all are forgotten', async () => (await openRequests()) <= 1);
      const read = await app.get(withQuery(PATH, { sessionId: 'leaver', productHandle: 'x' }));
      t.match(read, { status: 200, json: { count: 0 } });
    },
  );

  t.test('a client that leaves before its answer is no harm to anybody', async (t) => {
    const visit = JSON.stringify({ identity: { sessionId: 'impatient' }, productHandle: 'x' });
    const sent = 200;
    for (let i = 0; i < sent; i++) {
      const socket = connect({ port: app.port, host: '127.0.0.1' });
      socket.on('error', () => {});
      socket.write(
        `POST ${PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: ${visit.length}\r\n\r\n${visit}`,
        () => {
          if (i % 2) socket.destroy();
          else socket.resetAndDestroy();
        },
      );
      await once(socket, 'close');
    }
    await until('all are forgotten', async () => (await openRequests()) <= 1);
    const { json } = await app.get(withQuery(PATH, { sessionId: 'impatient', productHandle: 'x' }));
    t.ok(json.count > 0 && json.count <= sent, `${json.count} of ${sent} had arrived`);
    t.equal((await app.get('/healthz')).status, 200);
  });

  t.test('what is not HTTP does not disturb the others', async (t) => {
    const noises = [
      '\r\n\r\n\r\n',
      'GET\r\n\r\n',
      'GET / HTTP/9.9\r\n\r\n',
      '\x16\x03\x01\x02\x00\x01',
      'POST /event HTTP/1.1\r\ncontent-length: -1\r\n\r\n',
      'POST /event HTTP/1.1\r\nhost: x\r\ncontent-length: 1x\r\n\r\n',
      'POST /event HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
    ];
    for (const noise of noises) {
      const wire = await Wire.open(t, app.port);
      wire.send(Buffer.from(noise, 'latin1'));
      wire.socket.end();
    }
    t.equal((await app.get('/healthz')).status, 200);
  });

  t.test('closing answers what is under way, tells its connections so, and takes nothing new', async (t) => {
    const proxy = await startProxy(t, redis.url);
    const app = await startApp(t, { urls: [proxy.url] });
    const visit = { identity: { sessionId: 'closing' }, productHandle: 'x' };
    const post20 = () => Array.from({ length: 20 }, () => app.post(PATH, visit));
    await Promise.all(post20()); // and then there are 20 connections, which closing does not keep from being taken
    const idle = await Wire.open(t, app.port);
    idle.sendHead('GET', '/healthz');
    await idle.next();

    proxy.delay(100);
    const underWay = post20();
    const half = await Wire.open(t, app.port);
    const body = JSON.stringify(visit);
    half.sendHead('POST', PATH, { 'content-length': String(body.length) });
    half.send(body.slice(0, 5));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const closing = app.close();
    half.send(body.slice(5));

    for (const answer of await Promise.all(underWay))
      t.match(answer, { status: 200, headers: { connection: 'close' } });
    t.match(await half.next(), { status: 200 }, 'also one whose body was still coming');
    await closing;
    await idle.ended();
    await t.rejects(app.get('/healthz'), { code: 'ECONNREFUSED' });

    const again = await startApp(t, redis, { prefix: app.prefix });
    const { json } = await again.get(withQuery(PATH, { sessionId: 'closing', productHandle: 'x' }));
    t.equal(json.count, 41);
  });
});
