// Errors say what would be right: what is empty, where JSON ends being JSON, what is wrong with a signature, which
// credential would do, which field is too large; one issue for one fault.

import { createHmac } from 'node:crypto';
import t from 'tap';
import { parseJson } from '../../src/validation/json.js';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { proxied, SECRET, signed } from '../harness/app-proxy.js';
import { startTestRedis } from '../harness/redis.js';

const ORIGIN = 'https://shop.example';
const PUBLISHABLE = 'pk_test_0123456789';
const redis = await startTestRedis();
t.teardown(() => redis.stop());
const env = { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN };
const app = await startApp(t, redis, { env: { ...env, SHOPIFY_SECRET: SECRET } });
const plain = await startApp(t, redis, { env });
const identity = { sessionId: 's' };

t.test('an empty body is said to be empty', async (t) => {
  for (const path of ['/product/visit', '/event', '/item/add', '/webhook/purchase', '/settings']) {
    const method = path === '/settings' ? 'PUT' : 'POST';
    const { status, json } = await app.send(method, path, undefined, TRUSTED);
    t.equal(status, 400, path);
    t.same(json, {
      error: 'The body is empty: it must be a JSON object.',
      code: 'invalid_request',
      issues: [{ path: '', message: 'must be object' }],
    });
  }
  t.match((await app.post('/event', 'null', TRUSTED)).json.error, /^The request has fields/);
});

t.test('a fault of JSON is told with its line and column', async (t) => {
  const faults: [body: string, line: number, column: number][] = [
    ['{"identity":{"sessionId":"s"},}', 1, 31],
    ['{\n  "identity": {"sessionId": "s"}\n  "type": "add"\n}', 3, 3],
    ['{"identity":', 1, 13],
    ["{'a':1}", 1, 2],
    ['{"é😀":x}', 1, 8],
    ['{}\r\n\r\n{}', 3, 1],
    ['// a comment\n{}', 1, 1],
    ['undefined', 1, 1],
  ];
  for (const path of ['/event', '/webhook/purchase']) {
    for (const [body, line, column] of faults) {
      const error = `The body is not valid JSON from line ${line}, column ${column} on.`;
      t.match(
        await app.post(path, body, TRUSTED),
        { status: 400, json: { error, code: 'invalid_json' } },
        body,
      );
    }
  }
});

t.test('a fault that takes long to find, or one of many, has no place in its sentence', async (t) => {
  const error = 'The body is not valid JSON.';
  for (const body of [`{"a":"${'x'.repeat(16 * 1024)}",}`, '['.repeat(16_000)])
    t.equal((await app.post('/event', body, TRUSTED)).json.error, error);
  const sentences = Array.from({ length: 10_000 }, () => {
    try {
      return parseJson(Buffer.from('{'));
    } catch (error) {
      return (error as Error).message;
    }
  });
  t.ok(sentences.filter((sentence) => sentence === error).length > 5_000, 'of a flood few are looked at');
});

t.test('one fault is one issue', async (t) => {
  const item = { identity, productId: 1, productTitle: 'x', productHandle: 'x', image: 'x', price: '1.00' };
  const good = { ...item, compareAt: null, inventoryAvailable: true, quantity: 1 };
  const cases: [path: string, body: object, issue: { path: string; message: string | RegExp }][] = [
    ['/item/add', { ...good, quantity: 0.5 }, { path: '/quantity', message: 'must be integer' }],
    ['/item/add', { ...good, productId: -1.5 }, { path: '/productId', message: 'must be string or integer' }],
    ['/item/add', { ...good, source: 5 }, { path: '/source', message: /^must be one of pdp, / }],
    ['/share', { identity, channel: 5 }, { path: '/channel', message: /^must be one of Link, / }],
    ['/event', { identity, type: 1 }, { path: '/type', message: /^must be one of add, / }],
  ];
  for (const [path, body, issue] of cases) {
    const { status, json } = await app.post(path, body, TRUSTED);
    t.equal(status, 400);
    t.equal(json.issues.length, 1, JSON.stringify(json.issues));
    t.match(json.issues, [issue]);
  }
});

t.test('what is too large by itself is named', async (t) => {
  const large = { a: 'x'.repeat(16 * 1024) };
  const message = 'must have at most 16384 bytes as JSON';
  t.match(await app.post('/event', { identity, type: 'add', payload: large }, TRUSTED), {
    status: 413,
    json: { code: 'payload_too_large', issues: [{ path: '/payload', message }] },
  });
  const item = { productId: '1', productTitle: 'x', productHandle: 'x', image: 'x', price: '1.00' };
  const body = {
    identity,
    ...item,
    compareAt: null,
    inventoryAvailable: true,
    quantity: 1,
    properties: large,
  };
  t.match(await app.post('/item/add', body, TRUSTED), {
    status: 413,
    json: { code: 'payload_too_large', issues: [{ path: '/properties', message }] },
  });
});

t.test('a signature that is wrong, stale, or cannot be checked are three sentences', async (t) => {
  const event = { identity, type: 'add' };
  const unset = "The proxy signature can't be checked: SHOPIFY_SECRET is not set.";
  const wrong = 'The proxy signature is not the one of this query under SHOPIFY_SECRET.';
  const stale = 'The proxy signature is right, but its timestamp is more than 90 s from now.';
  const old = signed({ timestamp: String(Math.floor(Date.now() / 1000) - 100) });
  const expect = async (from: typeof app, path: string, error: string) =>
    t.match(await from.post(path, event), { status: 401, json: { error, code: 'unauthorized' } });
  await expect(plain, proxied('/event', {}), unset);
  await expect(app, proxied('/event', {}, 'another'), wrong);
  await expect(app, withQuery('/event', old), stale);
  await expect(app, withQuery('/event', { ...old, sessionId: 's' }), wrong);
});

t.test('so are those of a webhook', async (t) => {
  const deliver = (from: typeof app, signature?: string) =>
    from.post(
      '/webhook/purchase',
      '{}',
      signature === undefined ? {} : { 'x-shopify-hmac-sha256': signature },
    );
  const other = createHmac('sha256', 'another').update('{}').digest('base64');
  t.match((await deliver(app)).json.error, /required: a secret key or a webhook signature/);
  t.match((await deliver(app, other)).json.error, /not the one of this body/);
  t.match((await deliver(app, 'AAAA')).json.error, /not the one of this body/);
  t.match((await deliver(plain, other)).json.error, /SHOPIFY_SECRET is not set/);
});

t.test('who may not is told which credential would do', async (t) => {
  const browser = { 'x-api-key': PUBLISHABLE, origin: ORIGIN };
  const event = { identity, type: 'add' };
  const told = async (
    answer: Promise<{ status: number; json: { error: string } }>,
    status: number,
    error: string,
  ) => t.match(await answer, { status, json: { error } });
  const either = 'a secret key, an app-proxy signature, or a publishable key.';
  await told(app.post('/event', event), 401, `A credential is required: ${either}`);
  const rule = 'This is no secret key, and a publishable key begins with pk_.';
  await told(app.post('/event', event, { ...browser, 'x-api-key': 'wrong_0123456789' }), 401, rule);
  await told(app.post('/event?key=wrong_0123456789', event, { origin: ORIGIN }), 401, rule);
  const wrong = { ...browser, 'x-api-key': 'pk_wrong_0123456789' };
  await told(app.post('/event', event, wrong), 401, 'A valid credential is required.');
  await told(app.get('/settings', browser), 403, 'This credential may not do this: it takes a secret key.');
  await told(app.get('/settings'), 401, 'A credential is required: a secret key.');
  const order = app.post('/webhook/purchase', '{}', browser);
  await told(order, 403, 'This credential may not do this: it takes a secret key or a webhook signature.');
  const visit = { identity: { customerId: '7' }, productHandle: 'x' };
  t.match(
    (await app.post('/product/visit', visit, browser)).json.error,
    /takes a secret key or an app-proxy/,
  );
  t.match((await app.post('/product/visit', visit)).json.error, /takes a secret key or an app-proxy/);
});
