// ANONYMOUS_RATE_LIMIT: callers without a secret key are limited by their address, but not on loopback addresses. What one
// address can fill Redis with under it is in docs/api.md.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { pino } from 'pino';
import t from 'tap';
import { serve } from '../../src/app/serve.js';
import { readConfig, SETTINGS } from '../../src/config.js';
import type { Caller } from '../../src/http/access.js';
import type { Exchange, ExchangeOptions } from '../../src/http/exchange.js';
import type { Turn } from '../../src/http/load-shedding.js';
import { onRequest } from '../../src/http/on-request.js';
import type { Operation } from '../../src/http/operation.js';
import { openRateLimits } from '../../src/http/rate-limits.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';

const PATH = '/product/visit';
const LIMIT = 5;
const range = (count: number) => Array.from({ length: count }, (_, i) => i);
const visit = (sessionId: string) => ({ identity: { sessionId }, productHandle: 'p' });

const redis = await startTestRedis();
t.teardown(() => redis.stop());

t.test('a new user on the same machine is never refused, by default and however many pages', async (t) => {
  const app = await startApp(t, redis);
  const answers = await Promise.all(range(200).map((i) => app.post(PATH, visit(`local-${i}`))));
  t.ok(answers.every(({ status }) => status === 200));
});

t.test('an address behind a trusted proxy is limited; a loopback one and a secret key are not', async (t) => {
  const app = await startApp(t, redis, { env: { ANONYMOUS_RATE_LIMIT: String(LIMIT), TRUST_PROXY: '1' } });
  const refusedOf = async (address: string, headers = {}) => {
    const all = { 'x-forwarded-for': address, ...headers };
    const answers = await Promise.all(range(3 * LIMIT).map((i) => app.post(PATH, visit(`${i}`), all)));
    return answers.filter(({ status }) => status === 429).length;
  };
  t.ok((await refusedOf('192.0.2.1')) > 0);
  t.ok((await refusedOf('2001:db8::1')) > 0);
  for (const loopback of ['127.0.0.1', '127.1.2.3', '::1', '::ffff:127.0.0.1'])
    t.equal(await refusedOf(loopback), 0, loopback);
  t.equal(await refusedOf('192.0.2.2', TRUSTED), 0, 'a secret key');
});

/** Whether the second of two requests from this address is refused, at a limit of one. */
function isLimited(remote: readonly number[], caller: Partial<Caller>, trustedProxies = 0): boolean {
  const limits = openRateLimits({ RATE_LIMIT: 0, ANONYMOUS_RATE_LIMIT: 1 });
  const options = { limits, trustedProxies } as ExchangeOptions;
  const hooks = onRequest({ method: 'post', subject: 'visits' } as Operation, options, {} as Turn);
  const res = { getRemoteAddress: () => Uint8Array.from(remote).buffer } as HttpResponse;
  const req = { forEach() {} } as unknown as HttpRequest;
  const ask = () => hooks.limit({ caller: { account: null, ...caller } } as Exchange, res, req);
  ask();
  try {
    ask();
    return false;
  } catch {
    return true;
  }
}

t.test('connections: all of 127/8, ::1 and their mapped forms are loopback, and nothing else is', (t) => {
  const zeros = (count: number) => new Array<number>(count).fill(0);
  const addresses: [remote: number[], isLimited: boolean][] = [
    [[127, 0, 0, 1], false],
    [[127, 255, 3, 2], false],
    [[...zeros(15), 1], false],
    [[...zeros(10), 255, 255, 127, 0, 0, 1], false],
    [[10, 0, 0, 1], true],
    [[12, 7, 0, 1], true],
    [[...zeros(15), 2], true],
    [zeros(16), true],
    [[...zeros(10), 255, 255, 10, 0, 0, 1], true],
    [[0x20, 1, 0xd, 0xb8, ...zeros(11), 1], true],
  ];
  for (const [remote, expected] of addresses)
    t.equal(isLimited(remote, { kind: 'anyone' }), expected, remote.join('.'));
  t.end();
});

t.test("a shop's visitors are not taken for one, where no proxy is trusted to tell their addresses", (t) => {
  const shopify = [23, 227, 38, 1];
  t.equal(isLimited(shopify, { kind: 'storefront' }), false);
  t.equal(isLimited(shopify, { kind: 'storefront' }, 1), true);
  t.equal(isLimited(shopify, { kind: 'browser' }), true, 'a publishable key is no secret');
  t.equal(isLimited(shopify, { kind: 'server', account: 'key 1' }), false);
  t.end();
});

t.test('X-Forwarded-For that is not read is logged once, with the setting', async (t) => {
  const warned = async (trusted: string) => {
    const lines: string[] = [];
    const log = pino({ level: 'warn' }, { write: (line) => void lines.push(line) });
    const config = readConfig({
      ...{
        HOST: '127.0.0.1',
        PORT: '0',
        REDIS_URL: redis.url,
        KEY_PREFIX: `w${trusted}`,
        TRUST_PROXY: trusted,
      },
    });
    const running = await serve(config, log);
    const url = `http://127.0.0.1:${running.port}`;
    await fetch(`${url}/healthz`);
    t.same(lines, []);
    for (const path of ['/healthz', `${PATH}?sessionId=s&productHandle=p`, '/openapi.json'])
      await fetch(url + path, { headers: { 'x-forwarded-for': '192.0.2.1' } });
    await running.close();
    return lines;
  };
  const [line, ...others] = await warned('0');
  t.match(line, /TRUST_PROXY/);
  t.same(others, []);
  t.same(await warned('1'), []);
});

const handle = (i: number) => `${i}-`.padEnd(255, 'x');

/** In the order of the table in docs/api.md: what an anonymous caller fills Redis with. */
const FLOODS: readonly ((i: number) => [body: object, headers?: Record<string, string>])[] = [
  () => [{ identity: { sessionId: randomUUID() }, productHandle: 'linen-shirt-oversized' }],
  (i) => [{ identity: { sessionId: randomUUID() }, productHandle: handle(i) }],
  (i) => [{ identity: { sessionId: `known-${i % 40}` }, productHandle: handle(i) }],
  (i) => [visit(`known-${i % 40}`), { 'idempotency-key': randomUUID().padEnd(255, 'x') }],
];

t.test('a flood from one address fills Redis as docs/api.md says, and no faster', async (t) => {
  const rows = [
    ...readFileSync('docs/api.md', 'utf8').matchAll(/^\| (the same|[\d,]+).*\| (\d+) \| ([\d.]+) \|$/gm),
  ];
  const visits = 3_000;
  /** What connections and the records of batches take, however many visits there are. */
  const fixed = 256 * 1024;
  const own = await startTestRedis();
  t.teardown(() => own.stop());
  const app = await startApp(t, own, { env: { VISIT_LOG: 'off' } });
  const client = connectTo(own.url);
  t.teardown(() => client.disconnect());
  const used = async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
  const perHour = 3_600 * Number(SETTINGS.ANONYMOUS_RATE_LIMIT.fallback);
  t.equal(rows.length, FLOODS.length);
  for (const [row, [line, hourly = '', bytes, megabytes]] of rows.entries()) {
    if (hourly !== 'the same') t.equal(Number(hourly.replace(',', '')), perHour, line);
    t.equal(Number(megabytes), Number(((perHour * Number(bytes)) / 1e6).toPrecision(2)), line);
    const before = await used();
    for (let sent = 0; sent < visits; sent += 100) {
      const posts = range(100).map((i) => {
        const [body, headers] = (FLOODS[row] as (typeof FLOODS)[number])(sent + i);
        return app.post(PATH, body, headers);
      });
      for (const { status } of await Promise.all(posts)) if (status !== 200) t.fail(`${status}`);
    }
    const grown = (await used()) - before;
    t.ok(grown <= visits * Number(bytes) + fixed, `${line}: ${grown} B`);
    t.ok(grown >= (visits * Number(bytes)) / 2, `${line}: ${grown} B is far from it`);
  }
});

t.test('workers tell each other of each limit by its name', async (t) => {
  const settings = { RATE_LIMIT: 3, ANONYMOUS_RATE_LIMIT: 3 };
  const sent: unknown[] = [];
  let hear: (value: never) => void = () => {};
  const peers = (onShared: (set: (value: never) => void) => void) => ({
    workers: 2,
    now: () => 1_000_500,
    exchange<T>(onValue: (value: T) => void) {
      onShared(onValue as (value: never) => void);
      return (value: T) => void sent.push(value);
    },
  });
  const here = openRateLimits(
    settings,
    peers(() => {}),
  );
  const there = openRateLimits(
    settings,
    peers((set) => {
      hear = set;
    }),
  );
  for (const _ of range(3)) here.anonymous?.count('192.0.2.1');
  await new Promise(setImmediate);
  for (const value of sent) hear(value as never);
  t.throws(() => there.anonymous?.count('192.0.2.1'));
  t.doesNotThrow(() => there.callers?.count('192.0.2.1'));
  t.same(openRateLimits({ RATE_LIMIT: 0, ANONYMOUS_RATE_LIMIT: 0 }), {
    callers: undefined,
    anonymous: undefined,
  });
});
