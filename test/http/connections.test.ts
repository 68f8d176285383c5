// How requests are framed: a request that a proxy may read in another way is refused (request smuggling).
// Also clients that leave or read no answers, and a server that closes while it works.

import { connect } from 'node:net';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { PendingBytes } from '../../src/http/pending-bytes.js';
import { startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';
const visitOf = (sessionId: string) => JSON.stringify({ identity: { sessionId }, productHandle: 'x' });
const BODY = visitOf('framed');
const LENGTH = BODY.length;
const CHUNKED_BODY = `${LENGTH.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
const SMUGGLED = 'GET /healthz HTTP/1.1\r\nhost: x\r\nx-request-id: smuggled\r\n\r\n';
const chunked = (sessionId: string, trailers: string) => {
  const body = visitOf(sessionId);
  return [`${body.length.toString(16)}\r\n${body}\r\n`, `0\r\n${trailers}\r\n`] as const;
};
const head = (headers = '') =>
  `POST ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: ${TRUSTED.authorization}\r\ntransfer-encoding: chunked\r\n${headers}\r\n`;
t.test('connections', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);
  const countOf = (sessionId: string) => app.shop.count({ sessionId }, 'x');

  async function answersTo(t: Test, request: string): Promise<string> {
    const wire = await Wire.open(t, app.port);
    wire.send(Buffer.from(request + SMUGGLED, 'latin1'));
    return wire.ended();
  }

  const ambiguous: Record<string, [headers: string, body: string]> = {
    'two lengths, the first is shorter': [`content-length: ${LENGTH}\r\ncontent-length: ${LENGTH + 9}`, BODY],
    'two lengths that are one number': [`content-length: ${LENGTH}\r\ncontent-length: 0${LENGTH}`, BODY],
    'two lengths far apart': [
      `content-length: 0\r\n${'x-fill: y\r\n'.repeat(30)}content-length: ${LENGTH}`,
      BODY,
    ],
    'a list of lengths': [`content-length: ${LENGTH}, ${LENGTH}`, BODY],
    'an empty length and one': [`content-length:\r\ncontent-length: ${LENGTH}`, BODY],
    'a length with a sign': [`content-length: +${LENGTH}`, BODY],
    xchunked: ['transfer-encoding: xchunked', CHUNKED_BODY],
    'gzip, chunked': ['transfer-encoding: gzip, chunked', CHUNKED_BODY],
    'chunked twice': ['transfer-encoding: chunked\r\ntransfer-encoding: chunked', CHUNKED_BODY],
    'chunked and another coding': ['transfer-encoding: chunked\r\ntransfer-encoding: identity', CHUNKED_BODY],
    'another coding and chunked': ['transfer-encoding: identity\r\ntransfer-encoding: chunked', CHUNKED_BODY],
    'an empty coding': ['transfer-encoding:', CHUNKED_BODY],
    'an empty coding and chunked': ['transfer-encoding:\r\ntransfer-encoding: chunked', CHUNKED_BODY],
    'an empty coding and a length': [`transfer-encoding:\r\ncontent-length: ${LENGTH}`, BODY],
    'a length and chunked': [`content-length: ${LENGTH}\r\ntransfer-encoding: chunked`, CHUNKED_BODY],
    'chunked and a length': [`transfer-encoding: chunked\r\ncontent-length: ${LENGTH}`, CHUNKED_BODY],
  };
  t.test(
    'a request whose length can be read in two ways is refused on every path, and its connection ends',
    async (t) => {
      const before = await app.dump();
      const lines = ['POST', 'DELETE', 'GET', 'PUT', 'OPTIONS', 'HEAD'].map((method) => `${method} ${PATH}`);
      lines.push('POST /nowhere', 'GET /healthz', 'POST /webhook/purchase');
      for (const [name, [headers, body]] of Object.entries(ambiguous)) {
        const ask = (line: string) =>
          answersTo(t, `${line} HTTP/1.1\r\nhost: x\r\n${headers}\r\n\r\n${body}`);
        for (const [i, said] of (await Promise.all(lines.map(ask))).entries()) {
          const line = lines[i];
          // The parser itself answers 505 if a request line begins in the middle.
          t.match(said, /^(HTTP\/1\.1 (400|505) |$)/, `${name}, ${line}: refused, or the end`);
          t.notMatch(said, /smuggled/, `${name}, ${line}: what follows is not read`);
          t.ok(said.split('HTTP/1.1 ').length <= 2, `${name}, ${line}: one answer at most`);
        }
      }
      t.same(await app.dump(), before);
    },
  );

  t.test(
    'the refusal of an ambiguous request says why, and nothing after it on the connection is read',
    async (t) => {
      // After two lengths of zero, the next request begins where the parser expects it.
      const framings = [{ 'transfer-encoding': 'xchunked' }, { 'content-length': '0\r\ncontent-length: 00' }];
      for (const method of ['POST', 'GET', 'HEAD'])
        for (const framing of framings) {
          const wire = await Wire.open(t, app.port);
          wire.sendHead(method, PATH, { ...framing, 'x-request-id': 'mine' });
          const answer = await wire.next({ withoutBody: method === 'HEAD' });
          t.match(answer, { status: 400, headers: { connection: 'close', 'x-request-id': 'mine' } }, method);
          if (method !== 'HEAD') t.match(answer?.body, /"code":"invalid_request"/);
          wire.send(SMUGGLED);
          t.notMatch(await wire.ended(), /smuggled/, `${method}: the connection has ended`);
        }
    },
  );

  t.test(
    'a body with one length, the same length twice, or chunked is accepted, in one piece or two',
    async (t) => {
      const wire = await Wire.open(t, app.port);
      const visits = [
        `content-length: ${LENGTH}\r\n\r\n${BODY}`,
        `Content-Length:   ${LENGTH}  \r\n\r\n${BODY}`,
        `content-length: ${LENGTH}\r\ncontent-length: ${LENGTH}\r\n\r\n${BODY}`,
        `transfer-encoding: chunked\r\n\r\n${CHUNKED_BODY}`,
        `Transfer-Encoding:\tChunked\r\n\r\n${CHUNKED_BODY}`,
      ];
      for (const visit of visits) {
        wire.send(`POST ${PATH} HTTP/1.1\r\nhost: x\r\n${visit}`);
        t.match(await wire.next(), { status: 200 }, visit.slice(0, 40));
      }
      const [body, last] = chunked('framed', '');
      wire.send(head() + body);
      await app.get('/healthz');
      wire.send(last);
      t.match(await wire.next(), { status: 200 });
      t.equal(await countOf('framed'), visits.length + 1);
    },
  );

  // uWebSockets.js reads a trailer as the next request and answers 505; a client repeats a request that got
  // 505. So a request with a trailer is refused before anything is done.
  t.test('a request with a trailer, announced or not, is refused and changes nothing', async (t) => {
    for (const name of ['Trailer', 'trailer', undefined])
      for (const isWhole of [true, false]) {
        const wire = await Wire.open(t, app.port);
        const [body, last] = chunked('trailer', 'x-sum: 1\r\n');
        const start = head(name === undefined ? '' : `${name}: x-sum\r\n`) + body;
        wire.send(isWhole ? start + last : start);
        if (!isWhole) {
          if (name === undefined) await app.get('/healthz');
          else t.match(await wire.next(), { status: 400, body: /trailer/ });
          wire.send(last);
        }
        t.match(await wire.ended(), name === undefined ? /^HTTP\/1\.1 505 / : /^$|^HTTP\/1\.1 (400|505) /);
      }
    t.equal(await countOf('trailer'), 0);
  });

  t.test('a request with a chunk extension is refused at once, and changes nothing', async (t) => {
    const body = visitOf('extended');
    for (const extension of [';', ';a=b', ';1']) {
      const wire = await Wire.open(t, app.port);
      wire.send(`${head()}${body.length.toString(16)}${extension}\r\n${body}\r\n0\r\n\r\n`);
      const answer = await wire.next();
      t.match(answer, { status: 400, headers: { connection: 'close' }, body: /chunk extension/ }, extension);
      t.equal(await wire.ended(), '');
    }
    t.equal(await countOf('extended'), 0);
    const wire = await Wire.open(t, app.port);
    const [start, end] = ['{"identity":{"sessionId":"zero"},"productHandle":"x","z":[', '0]}'];
    wire.send(`${head()}${start.length.toString(16)}\r\n${start}\r\n`);
    wire.send(`${end.length.toString(16)}\r\n${end}\r\n0\r\n\r\n`);
    t.match(await wire.next(), { status: 200 }, 'a body in two chunks is taken');
  });

  t.test('a query that is not UTF-8 is 400, with raw bytes as with percent-encoded ones', async (t) => {
    const wire = await Wire.open(t, app.port);
    for (const id of ['\xff', '%ff', 'a\xc3']) {
      wire.sendHead('GET', `${PATH}?sessionId=${id}&productHandle=x`);
      const answer = await wire.next();
      t.match(answer, { status: 400, body: /"\/sessionId","message":"must be UTF-8/ }, JSON.stringify(id));
    }
  });

  const openRequests = async () => Number(await app.figure('http_open_requests'));

  t.test('a request without Host is refused by the parser, and its connection ends', async (t) => {
    const wire = await Wire.open(t, app.port);
    wire.send('GET /healthz HTTP/1.1\r\naccept: */*\r\n\r\n');
    t.match(await wire.next({ withoutBody: true }), { status: 400, headers: { connection: 'close' } });
    await wire.ended();
    const empty = await Wire.open(t, app.port);
    empty.send('GET /healthz HTTP/1.1\r\nhost:\r\n\r\n');
    t.match(await empty.next(), { status: 200 }, 'an empty one is one');
  });

  t.test('pipelined requests are answered in their order', async (t) => {
    const wire = await Wire.open(t, app.port);
    const wrong = '{"identity":{}}';
    for (let i = 0; i < 20; i++) {
      wire.sendHead('POST', PATH, { 'content-length': String(wrong.length), 'x-request-id': `r${i}` });
      wire.send(wrong);
      wire.sendHead('GET', '/nowhere', { 'x-request-id': `n${i}` });
    }
    for (let i = 0; i < 20; i++) {
      t.match(await wire.next(), { status: 400, headers: { 'x-request-id': `r${i}` } });
      t.match(await wire.next(), { status: 404, headers: { 'x-request-id': `n${i}` } });
    }
  });

  async function sendCut(t: Test, text: string, cut: number): Promise<Wire> {
    const wire = await Wire.open(t, app.port);
    wire.socket.setNoDelay(true);
    wire.send(text.slice(0, cut));
    await sleep(1);
    wire.send(text.slice(cut));
    return wire;
  }

  t.test('a request with an empty body is complete, wherever the network cuts its head', async (t) => {
    const line = 'DELETE /product/visit?sessionId=empty&productHandle=x HTTP/1.1\r\n';
    const head = `${line}host: x\r\ncontent-length: 0\r\n\r\n`;
    // If the request line is cut, uWebSockets.js may read another HTTP version and answer 505.
    for (let cut = line.length; cut <= head.length; cut++) {
      const wire = await sendCut(t, head, cut);
      const first = await wire.next();
      t.match(first, { status: 200 }, `cut at ${cut}`);
      wire.send(head);
      const isClosed = first?.headers['connection'] === 'close';
      t.equal((await wire.next())?.status, isClosed ? undefined : 200, 'the next, unless it said close');
      if (cut === head.length) t.notOk(isClosed, 'a head in one piece closes nothing');
    }
  });

  t.test(
    'a request cut within its first line is either counted once, or answered 505 and not counted',
    async (t) => {
      const visit = visitOf('cut');
      const line = `POST ${PATH} HTTP/1.1\r\n`;
      const rest = `host: x\r\ncontent-type: application/json\r\ncontent-length: ${visit.length}\r\n\r\n${visit}`;
      let counted = 0;
      for (let cut = 1; cut <= line.length; cut++) {
        const wire = await sendCut(t, line + rest, cut);
        const answer = await wire.next({ withoutBody: true });
        if (answer?.status === 200) counted++;
        else t.match(answer, { status: 505, headers: { connection: 'close' } }, `cut at ${cut}`);
      }
      t.ok(counted > 0);
      t.equal(await countOf('cut'), counted);
    },
  );

  // uWebSockets.js drops the connection if a request arrives while the one before it waits for Redis.
  t.test('a pipelined request behind one that waits for Redis is never answered out of order', async (t) => {
    const visit = visitOf('pipeline');
    const tries = 25;
    const answered: string[] = [];
    for (let i = 0; i < tries; i++) {
      const wire = await Wire.open(t, app.port);
      for (const id of ['first', 'second']) {
        wire.sendHead('POST', PATH, { 'content-length': String(visit.length), 'x-request-id': id });
        wire.send(visit);
      }
      // In a TCP segment of its own, the second may arrive after the first was answered; then both are
      // answered in order.
      const ids: unknown[] = [];
      for (let answer = await wire.next(); answer !== undefined; ) {
        t.equal(answer.status, 200);
        ids.push(answer.headers['x-request-id']);
        answer = ids.length === 2 ? undefined : await wire.next();
      }
      answered.push(ids.join());
    }
    for (const ids of answered) t.ok(['', 'first', 'first,second'].includes(ids), ids);
    const acknowledged = answered.reduce((sum, ids) => sum + ids.split(',').filter(Boolean).length, 0);
    const count = await countOf('pipeline');
    t.ok(count >= Math.max(1, acknowledged) && count <= 2 * tries, `${count} were counted`);
  });

  t.test('a request whose client leaves within its body is forgotten and changes nothing', async (t) => {
    const visit = visitOf('leaver');
    const starts = [
      `content-length: ${visit.length + 1}\r\n\r\n${visit}`,
      `content-length: 60000\r\n\r\n${visit}`,
      `transfer-encoding: chunked\r\n\r\n${visit.length.toString(16)}\r\n${visit}\r\n`,
    ];
    const sockets = Array.from({ length: 60 }, (_, i) => {
      const socket = connect({ port: app.port, host: '127.0.0.1' });
      socket.write(`POST ${PATH} HTTP/1.1\r\nhost: x\r\n${starts[i % 3]}`);
      return socket;
    });
    await until('all have begun', async () => (await openRequests()) >= 60);
    for (const socket of sockets) socket.destroy();
    await until('all are forgotten', async () => (await openRequests()) === 0);
    t.equal(await countOf('leaver'), 0);
  });

  t.test(
    'a closing server answers the requests in flight, closes their connections, and accepts no new ones',
    async (t) => {
      const proxy = await startProxy(t, redis.url);
      const app = await startApp(t, { urls: [proxy.url] });
      const visit = { identity: { sessionId: 'closing' }, productHandle: 'x' };
      const post20 = () => Array.from({ length: 20 }, () => app.post(PATH, visit));
      await Promise.all(post20()); // opens the 20 connections that the next call uses
      const idle = await Wire.open(t, app.port);
      idle.sendHead('GET', '/healthz');
      await idle.next();

      proxy.freeze();
      const underWay = post20();
      const half = await Wire.open(t, app.port);
      const body = JSON.stringify(visit);
      half.sendHead('POST', PATH, { 'content-length': String(body.length) });
      half.send(body.slice(0, 5));
      // This answer proves that the server has read everything sent before.
      await app.get('/healthz');
      const closing = app.close();
      half.send(body.slice(5));
      const isTaken = () => Wire.open(t, app.port).catch(() => undefined);
      await until('no connection is taken', async () => (await isTaken()) === undefined);
      proxy.thaw();

      for (const answer of await Promise.all(underWay))
        t.match(answer, { status: 200, headers: { connection: 'close' } });
      t.match(await half.next(), { status: 200 }, 'also one whose body was still coming');
      await closing;
      await idle.ended();

      const again = await startApp(t, redis, { prefix: app.prefix });
      t.equal(await again.shop.count({ sessionId: 'closing' }, 'x'), 41);
    },
  );
});

const MiB = 1024 * 1024;
const LIMIT = 8 * MiB;
const WHO = { sessionId: 'with-a-long-list' };
/** Items of about 16 KB each: more bytes than the kernel buffers for a reader that stalls. */
const ITEMS = 400;
const redis = await startTestRedis(t);
function askOn(wire: Wire): Wire {
  wire.socket.pause();
  const body = JSON.stringify({ identity: WHO });
  wire.sendHead('POST', '/item/list', { ...TRUSTED, 'content-length': `${body.length}` });
  wire.send(body);
  return wire;
}
const ask = async (t: Test, port: number) => askOn(await Wire.open(t, port));
const waitingOf = async (app: TestApp) => Number(await app.figure('http_pending_bytes'));
t.test(
  'answers that wait for slow readers have one limit in bytes, beyond which large answers become 503',
  async (t) => {
    let now = 0;
    const env = { MAX_ITEMS_BYTES: String(16 * MiB) };
    const timing = { now: () => now, maxPendingBytes: LIMIT };
    const app = await startApp(t, redis, { prefix: 'lists', env, timing });
    const properties = { text: 'x'.repeat(16_000) };
    for (let i = 0; i < ITEMS; i += 50) {
      const ids = Array.from({ length: 50 }, (_, n) => String(1 + i + n));
      await Promise.all(ids.map((productId) => app.shop.add(WHO, { productId, properties })));
    }
    const list = () => app.post('/item/list', { identity: WHO }, TRUSTED);

    const wires: Wire[] = [];
    await until('one waits', async () => {
      wires.push(await ask(t, app.port));
      return (await waitingOf(app)) > 0;
    });
    const refused = await list();
    await until('all are answered', async () => (await app.figure('http_open_requests')) === 0);
    const full = await waitingOf(app);
    t.ok(full <= LIMIT && full > LIMIT / 2, `${full} bytes wait`);
    t.match(refused, { status: 503, json: { code: 'overloaded', error: /slow readers/ } });
    t.ok(refused.headers['retry-after']);
    t.ok(await app.figure('http_refused_total{code="overloaded",why="readers"}'));
    t.match(await app.post('/product/visit', { identity: WHO, productHandle: 'x' }), { status: 200 });

    now = 2_000;
    const answer = await list();
    t.match(answer, { status: 200 }, 'a reader that takes nothing makes room');
    t.equal(answer.json.items.length, ITEMS);
    t.equal(await app.figure('http_readers_cut_total'), 1);
    t.ok((await waitingOf(app)) < full);
    const fit = [64 * MiB, 64 * MiB + 1].map((bytes) => new PendingBytes().makeRoom(bytes));
    t.same(fit, [true, false], 'of a process: 64 MiB');
    for (const wire of wires) wire.socket.destroy();
    await until('nothing waits any more', async () => (await waitingOf(app)) === 0);
  },
);
t.test('a closing server waits for slow readers, but only 5 s for one that has stalled', async (t) => {
  const start = () => startApp(t, redis, { prefix: 'lists' });
  const [app, other] = [await start(), await start()];
  const during = await Wire.open(t, app.port);
  during.sendHead('GET', '/healthz');
  await during.next();
  const before = await ask(t, app.port);
  await ask(t, other.port);
  await until('two wait', async () => (await waitingOf(app)) > 0 && (await waitingOf(other)) > 0);
  const one = await waitingOf(app);
  const closing = Promise.all([app.close(), other.close()]);
  askOn(during);
  await until('one more waits', async () => (await waitingOf(app)) > one);
  for (const wire of [before, during]) {
    wire.socket.resume();
    const answer = await wire.next();
    t.equal(answer?.headers['connection'], wire === during ? 'close' : undefined);
    t.equal(JSON.parse(answer?.body ?? '{}').items?.length, ITEMS);
  }
  await closing;
});
t.test(
  'a client that sends requests and reads no answers is disconnected, even if no rate limit applies',
  async (t) => {
    const app = await startApp(t, redis);
    for (const [path, status] of [
      ['/nowhere', 404],
      ['/healthz', 200],
      ['/beacon.js', 200],
    ] as const) {
      t.equal((await app.get(path)).status, status);
      const wire = await Wire.open(t, app.port);
      wire.socket.pause();
      const requests = `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(400);
      const isCut = () => wire.socket.destroyed;
      for (let sent = 0; !isCut() && sent < 8 * MiB; sent += requests.length) {
        await new Promise((resolve) => wire.socket.write(requests, resolve));
        await turn();
      }
      t.ok(isCut(), path);
    }
  },
);
