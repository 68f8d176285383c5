// Where a request ends. A proxy before the service and the service itself must agree on it, or one visitor's bytes
// become the beginning of another's request (request smuggling). What may be read in two ways is refused, and nothing
// that follows it on its connection is read.

import t, { type Test } from 'tap';
import { startApp, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';
const BODY = JSON.stringify({ identity: { sessionId: 'framed' }, productHandle: 'x' });
const LENGTH = BODY.length;
const CHUNKED_BODY = `${LENGTH.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
const SMUGGLED = 'GET /healthz HTTP/1.1\r\nhost: x\r\nx-request-id: smuggled\r\n\r\n';

t.test('framing', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis);

  /** Sends a request with another one on its heels; what the server says until it closes. */
  async function answersTo(t: Test, request: string): Promise<string> {
    const wire = await Wire.open(t, app.port);
    wire.send(Buffer.from(request + SMUGGLED, 'latin1'));
    return wire.ended();
  }

  const ambiguous: Record<string, [headers: string, body: string]> = {
    'two lengths, the first is shorter': [`content-length: ${LENGTH}\r\ncontent-length: ${LENGTH + 9}`, BODY],
    'two lengths, the first is longer': [`content-length: ${LENGTH + 9}\r\ncontent-length: ${LENGTH}`, BODY],
    'two lengths that are one number': [`content-length: ${LENGTH}\r\ncontent-length: 0${LENGTH}`, BODY],
    'two lengths far apart': [
      `content-length: 0\r\n${'x-fill: y\r\n'.repeat(30)}content-length: ${LENGTH}`,
      BODY,
    ],
    'a list of lengths': [`content-length: ${LENGTH}, ${LENGTH}`, BODY],
    'an empty length': ['content-length:', BODY],
    'an empty length and one': [`content-length:\r\ncontent-length: ${LENGTH}`, BODY],
    'a length with a sign': [`content-length: +${LENGTH}`, BODY],
    xchunked: ['transfer-encoding: xchunked', CHUNKED_BODY],
    chunkedx: ['transfer-encoding: chunkedx', CHUNKED_BODY],
    identity: ['transfer-encoding: identity', CHUNKED_BODY],
    'gzip, chunked': ['transfer-encoding: gzip, chunked', CHUNKED_BODY],
    'chunked, identity': ['transfer-encoding: chunked, identity', CHUNKED_BODY],
    'chunked twice': ['transfer-encoding: chunked\r\ntransfer-encoding: chunked', CHUNKED_BODY],
    'chunked and another coding': ['transfer-encoding: chunked\r\ntransfer-encoding: identity', CHUNKED_BODY],
    'another coding and chunked': ['transfer-encoding: identity\r\ntransfer-encoding: chunked', CHUNKED_BODY],
    'an empty coding': ['transfer-encoding:', CHUNKED_BODY],
    'an empty coding and chunked': ['transfer-encoding:\r\ntransfer-encoding: chunked', CHUNKED_BODY],
    'an empty coding and a length': [`transfer-encoding:\r\ncontent-length: ${LENGTH}`, BODY],
    'a length and chunked': [`content-length: ${LENGTH}\r\ntransfer-encoding: chunked`, CHUNKED_BODY],
    'chunked and a length': [`transfer-encoding: chunked\r\ncontent-length: ${LENGTH}`, CHUNKED_BODY],
  };
  for (const [name, [headers, body]] of Object.entries(ambiguous)) {
    t.test(`refused, on every path and with the connection closed: ${name}`, async (t) => {
      const before = await dumpRedis(redis, app.prefix);
      const lines = ['POST', 'DELETE', 'GET', 'PUT', 'OPTIONS', 'HEAD'].map((method) => `${method} ${PATH}`);
      const asked = [...lines, 'POST /nowhere', 'GET /healthz', 'POST /webhook/purchase'].map(
        async (line) =>
          [line, await answersTo(t, `${line} HTTP/1.1\r\nhost: x\r\n${headers}\r\n\r\n${body}`)] as const,
      );
      for (const [line, said] of await Promise.all(asked)) {
        // 505 is what the parser itself says to a request line that begins in the middle.
        t.match(said, /^(HTTP\/1\.1 (400|505) |$)/, `${line}: refused, or the end`);
        t.notMatch(said, /smuggled/, `${line}: what follows is not read`);
        t.equal(said.split('HTTP/1.1 ').length <= 2, true, `${line}: one answer at most`);
      }
      t.same(await dumpRedis(redis, app.prefix), before);
    });
  }

  t.test('what comes after a refusal is not read either', async (t) => {
    for (const method of ['POST', 'GET', 'HEAD']) {
      const wire = await Wire.open(t, app.port);
      wire.send(`${method} ${PATH} HTTP/1.1\r\nhost: x\r\ntransfer-encoding:\r\n\r\n`);
      t.match(
        await wire.next({ withoutBody: method === 'HEAD' }),
        { status: 400, headers: { connection: 'close' } },
        method,
      );
      wire.send(SMUGGLED);
      t.notMatch(await wire.ended(), /smuggled/, `${method}: the connection has ended`);
    }
  });

  t.test('the refusal says why', async (t) => {
    const wire = await Wire.open(t, app.port);
    wire.sendHead('POST', PATH, { 'transfer-encoding': 'xchunked', 'x-request-id': 'mine' });
    t.match(await wire.next(), {
      status: 400,
      headers: { connection: 'close', 'x-request-id': 'mine' },
      body: /"code":"invalid_request"/,
    });
    await wire.ended();
  });

  t.test('taken: one length, the same twice, chunked in any case, no body', async (t) => {
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
    wire.sendHead('GET', withQuery(PATH, { sessionId: 'framed', productHandle: 'x' }));
    t.match(await wire.next(), { status: 200, body: /"count":5/ });
  });
});
