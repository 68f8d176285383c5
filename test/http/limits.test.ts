// Limits from both sides, content types, and bodies that do not come as they should.

import type { HttpResponse } from 'uWebSockets.js';
import t, { type Test } from 'tap';
import type { ServiceError } from '../../src/errors.js';
import { Reading } from '../../src/http/body.js';
import { KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';
const VISIT = { identity: { sessionId: 's' }, productHandle: 'x' };
const MAX_BODY = 65_536;
const MAX_PAYLOAD = 16_384;

/** A valid visit of exactly this many bytes: the rest is an unknown field. */
function visitOfBytes(bytes: number): Buffer {
  const empty = JSON.stringify({ ...VISIT, fill: '' });
  return Buffer.from(JSON.stringify({ ...VISIT, fill: 'x'.repeat(bytes - empty.length) }));
}

/** The same bytes in pieces; their sizes go round `sizes`. */
function pieces(bytes: Buffer, ...sizes: number[]): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = sizes[parts.length % sizes.length] as number;
    parts.push(bytes.subarray(at, at + size));
    at += size;
  }
  return parts;
}

t.test('limits', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);

  t.test('a body of 65,536 bytes passes and one of 65,537 does not, however it comes', async (t) => {
    const whole = (bytes: Buffer): unknown => bytes;
    const shapes = [[MAX_BODY * 2], [1_000], [16_384], [1, 4_095, 60_000]];
    const ways = [whole, ...shapes.map((sizes) => (bytes: Buffer) => pieces(bytes, ...sizes))];
    for (const method of ['POST', 'DELETE'])
      for (const cut of ways) {
        t.equal((await app.send(method, PATH, cut(visitOfBytes(MAX_BODY)))).status, 200, method);
        expectTooLarge(t, await app.send(method, PATH, cut(visitOfBytes(MAX_BODY + 1))), method);
      }
  });

  t.test('a chunked body is refused when it passes the limit, not at its end', async (t) => {
    const wire = await Wire.open(t, app.port);
    wire.sendHead('POST', PATH, { 'transfer-encoding': 'chunked' });
    const chunk = Buffer.alloc(0x4000, ' ');
    for (let i = 0; i < 5; i++)
      wire.send(Buffer.concat([Buffer.from('4000\r\n'), chunk, Buffer.from('\r\n')]));
    t.match(await wire.next(), { status: 413, headers: { connection: 'close' } });
    await wire.ended();
  });

  t.test('after a body that was a little too large the connection goes on', async (t) => {
    const wire = await Wire.open(t, app.port);
    wire.sendHead('POST', PATH, { 'content-length': '70000' });
    t.match(await wire.next(), { status: 413 });
    wire.send(Buffer.alloc(70_000, 'x'));
    wire.sendHead('GET', withQuery(PATH, { sessionId: 's', productHandle: 'unseen' }));
    t.match(await wire.next(), { status: 200, body: /"count":0/ });
  });

  t.test('a body that is not read and that may have no end closes its connection', async (t) => {
    const endless = { 'transfer-encoding': 'chunked' };
    const refused: [method: string, path: string, headers: Record<string, string>, status: number][] = [
      ['POST', PATH, { 'content-length': '1048577' }, 413],
      ['POST', PATH, { 'content-length': '10000000000' }, 413],
      ['POST', PATH, { ...endless, 'content-type': 'text/html' }, 415],
      ['POST', '/event', endless, 401],
      ['POST', '/event', { 'content-length': '10000000000' }, 401],
      ['POST', '/nowhere', endless, 404],
      ['PATCH', PATH, endless, 405],
      ['GET', '/healthz', endless, 200],
    ];
    for (const [method, path, headers, status] of refused) {
      const wire = await Wire.open(t, app.port);
      wire.sendHead(method, path, headers);
      t.match(await wire.next(), { status, headers: { connection: 'close' } }, `${method} ${path}`);
      await wire.ended();
    }
  });

  t.test('a body in pieces is taken whole, one in far too many ends with its connection', async (t) => {
    const body = visitOfBytes(60_000);
    for (const shape of [[55], [100], [1, 200], [1, 2, 3, 500], [59_999], [1, 59_999]])
      t.equal((await app.post(PATH, pieces(body, ...shape))).status, 200, `chunked by ${shape}`);
    const before = await dumpRedis(redis, app.prefix);
    for (const count of [1_300, 10_000, 60_000]) {
      const wire = await Wire.open(t, app.port);
      wire.sendHead('POST', PATH, { 'transfer-encoding': 'chunked' });
      wire.send('1\r\n \r\n'.repeat(count));
      t.equal(await wire.ended(), '', `${count} chunks of one byte`);
    }
    t.same(await dumpRedis(redis, app.prefix), before);
    t.match(await app.figures(), /^wishmeter_http_open_requests 0$/m, 'and nothing of it is left open');
  });

  t.test('an event payload of 16,384 bytes passes and one of 16,385 does not; blanks are free', async (t) => {
    const event = (payload: object) => ({ identity: { sessionId: 's' }, type: 'add', payload });
    const payloadOf = (bytes: number, unit: string) => {
      const size = Buffer.byteLength(unit);
      const rest = bytes - Buffer.byteLength('{"a":""}');
      return { a: unit.repeat(Math.floor(rest / size)) + 'y'.repeat(rest % size) };
    };
    for (const unit of ['x', 'é', '😀']) {
      const fits = event(payloadOf(MAX_PAYLOAD, unit));
      t.equal((await app.post('/event', fits, TRUSTED)).status, 200, unit);
      const more = event(payloadOf(MAX_PAYLOAD + 1, unit));
      expectTooLarge(t, await app.post('/event', more, TRUSTED), unit);
    }
    const blown = JSON.stringify(event(payloadOf(MAX_PAYLOAD, 'x')), null, 8).replaceAll('\n', '\n\n\n');
    t.equal((await app.post('/event', blown, TRUSTED)).status, 200);
  });

  t.test('ids and handles have up to 255 bytes after trimming, and differ by the last', async (t) => {
    const visit = (sessionId: string, productHandle: string) =>
      app.post(`${PATH}?count=true`, { identity: { sessionId }, productHandle });
    const full = ['x'.repeat(255), `${'é'.repeat(127)}x`, `${'€'.repeat(85)}`, `${'😀'.repeat(63)}xxx`];
    for (const name of full) {
      t.match(await visit(name, name), { status: 200, json: { count: 1, productHandle: name } });
      t.equal(await app.shop.count({ sessionId: name }, name), 1);
      t.equal((await visit(`${name}x`, 'x')).status, 400);
      t.equal((await visit('s', `${name}x`)).status, 400);
      t.equal((await app.get(withQuery(PATH, { sessionId: `${name}x`, productHandle: 'x' }))).status, 400);
    }
    const [name = ''] = full;
    t.equal((await visit(`  ${name}\n`, name)).json.count, 2, 'blanks around an id are not counted');
    for (const end of ['a', 'b']) t.equal((await visit('x'.repeat(254) + end, 'long')).json.count, 1);
  });

  t.test('device, locale, e-mail and names have their limits', async (t) => {
    const limits = { device: 64, locale: 64, email: 320, firstName: 255, lastName: 255 };
    for (const [name, bytes] of Object.entries(limits)) {
      for (const start of ['@', '@é']) {
        const fits = start + 'x'.repeat(bytes - Buffer.byteLength(start));
        const statusOf = async (value: string) => {
          const body = { identity: { sessionId: 's', [name]: value }, type: 'add' };
          return (await app.post('/event', body, TRUSTED)).status;
        };
        t.equal(await statusOf(fits), 200, `${name} of ${bytes} bytes`);
        t.equal(await statusOf(`${fits}x`), 400, `${name} of ${bytes + 1} bytes`);
      }
      const nothing = { identity: { sessionId: 's', [name]: null }, type: 'add' };
      t.equal((await app.post('/event', nothing, TRUSTED)).status, 200, `${name} null`);
    }
  });

  t.test('unknown fields are ignored, wherever they are', async (t) => {
    const identity = { sessionId: 'unknown-fields', age: 7, null: null };
    const visit = { identity, productHandle: 'x', extra: [1], customerId: 5 };
    t.match(await app.post(`${PATH}?count=true&utm_source=x&utm=%FF`, visit), {
      status: 200,
      json: { count: 1 },
    });
    t.match(await app.get(`${PATH}?sessionId=unknown-fields&productHandle=x&utm=1&utm=2`), {
      json: { count: 1 },
    });
  });

  t.test('JSON, plain text and no content type are taken, in any spelling; all else is 415', async (t) => {
    const typed = (type: string) => app.post(PATH, VISIT, type === '' ? {} : { 'content-type': type });
    const json = ['application/json; charset=utf-8', 'application/json;charset=UTF-8', 'Application/JSON'];
    const text = ['text/plain', 'text/plain;charset=UTF-8', 'TEXT/PLAIN ; charset=utf-8'];
    for (const type of ['', ...json, ...text]) t.equal((await typed(type)).status, 200, type || 'absent');
    const forms = ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'];
    const near = ['application/jsonp', 'application/json-patch+json', 'text/plainer', 'json'];
    const more = ['text/html', 'application/xml; x=application/json', 'application/json, text/html'];
    const before = await dumpRedis(redis, app.prefix);
    for (const type of [...forms, ...near, ...more])
      t.match(await typed(type), { status: 415, json: { code: 'unsupported_media_type' } }, type);
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('a body that does not arrive in time is 408, whether the client is silent or slow', async (t) => {
    const impatient = await startApp(t, redis, { timing: { bodyTimeoutMs: 300 } });
    const clients = [
      { what: 'nothing of the body', start: '', drip: '' },
      { what: 'half of it', start: '{"identity"', drip: '' },
      { what: 'a byte now and then', start: '{', drip: ' ' },
      { what: 'a byte now and then, chunked', start: '1\r\n{\r\n', drip: '1\r\n \r\n', chunked: true },
    ];
    const ends = clients.map(async ({ what, start, drip, chunked }) => {
      const wire = await Wire.open(t, impatient.port);
      const size = chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': '1000' };
      wire.sendHead('POST', PATH, { 'x-api-key': KEY, ...size });
      if (start !== '') wire.send(start);
      const dripping = setInterval(() => drip && wire.send(drip), 50);
      const answer = await wire.next();
      clearInterval(dripping);
      t.match(
        answer,
        { status: 408, headers: { connection: 'close' }, body: /"code":"request_timeout"/ },
        what,
      );
      await wire.ended();
    });
    await Promise.all(ends);
  });
});

// uWebSockets.js cuts a connection that is silent for 8 to 10 s, unless it was paused meanwhile.
t.test('a body has 10 s, and its connection is kept alive until then', async (t) => {
  const ends: unknown[] = [];
  let keptAlive = 0;
  const res = { onData() {}, pause: () => keptAlive++, resume() {} } as unknown as HttpResponse;
  const outcome = {
    done: (error?: ServiceError) => void ends.push(error?.code),
    shredded: () => t.fail('in few chunks'),
  };
  const reading = new Reading(res, MAX_BODY, outcome);
  for (let ms = 0; ms < 10_000; ms += 500) reading.watch(1 + ms);
  t.same([ends, keptAlive], [[], 1]);
  reading.watch(10_001);
  t.same(ends, ['request_timeout']);
  t.ok(reading.isOver);
});

function expectTooLarge(t: Test, answer: Awaited<ReturnType<TestApp['get']>>, why: string): void {
  t.match(answer, { status: 413, json: { code: 'payload_too_large', error: String } }, why);
}
