// Keys and visitors stay where they belong: neither is in what the processes write, in their titles, in metrics or
// in errors, also where something fails. The real program, with secrets and visitors that can be searched for.

import { readFile } from 'node:fs/promises';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { startTestRedis } from '../harness/redis.js';
import { processesOf } from './processes.js';
import { apiKey, logLines, started } from './started.js';
import { spawnWishmeter, tempDir, until } from './wishmeter.js';

const SECRETS = {
  oldKey: 'sk_old_SECRETKEY_0123456789',
  newKey: 'sk_new_SECRETKEY_0123456789',
  publishable: 'pk_SECRETKEY_0123456789',
  shopify: 'shpss_SECRETKEY_0123456789',
  metrics: 'metrics_SECRETKEY_0123456789',
};
const WRONG = 'sk_WRONGKEY_0123456789abc';
const VISITOR = {
  sessionId: 'session-PERSONAL-1',
  customerId: 'customer-PERSONAL-1',
  email: 'ada.PERSONAL@shop.example',
  firstName: 'Ada-PERSONAL',
  lastName: 'Lovelace-PERSONAL',
};
const MARKS = /SECRETKEY|WRONGKEY|PERSONAL/;
const keys = createKeys('wm');

/** Every answer that is no success, as one text; asserts that each request had the status it should. */
async function exercise(t: Test, url: string, key: string): Promise<string> {
  const seen: string[] = [];
  const call = async (path: string, status: number, headers: Record<string, string> = {}, body?: unknown) => {
    const response = await fetch(url + path, {
      // fetch would say that a text is text/plain.
      headers: { 'content-type': 'application/json', ...headers },
      ...(body === undefined
        ? {}
        : { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    t.equal(response.status, status, `${path} ${JSON.stringify(headers)}`);
    const text = await response.text();
    if (!response.ok) seen.push(text, JSON.stringify([...response.headers]));
  };
  const good = { authorization: `Bearer ${key}` };
  const event = { identity: VISITOR, type: 'add', payload: { productId: 'PERSONAL' } };
  await call('/event', 200, good, event);
  await call('/event', 200, { 'x-api-key': key }, event);
  const wrong: Record<string, string>[] = [
    { authorization: `Bearer ${WRONG}` },
    { authorization: `Bearer ${key}${WRONG}` },
    { authorization: `Basic ${WRONG}` },
    { 'x-api-key': WRONG },
    { 'x-api-key': SECRETS.shopify },
    { 'x-api-key': SECRETS.metrics },
  ];
  for (const headers of wrong) await call('/event', 401, headers, event);
  await call(`/product/visit?key=${WRONG}`, 401, {}, { identity: VISITOR, productHandle: 'x' });
  await call(`/item/list?signature=${WRONG}`, 401, {}, { identity: VISITOR });
  await call('/webhook/purchase', 401, { 'x-shopify-hmac-sha256': WRONG }, { email: VISITOR.email });
  await call('/metrics', 401, { authorization: `Bearer ${WRONG}` });
  await call('/event', 400, good, `{"identity":{"sessionId":"${VISITOR.sessionId}"`);
  await call('/event', 400, good, { ...event, type: VISITOR.email });
  await call('/event', 400, good, {
    ...event,
    identity: { ...VISITOR, email: 'PERSONAL', device: 'PERSONAL'.repeat(9) },
  });
  await call(`/PERSONAL/${WRONG}`, 404, good);
  return seen.join('\n');
}

const metricsOf = async (url: string) => {
  const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${SECRETS.metrics}` } });
  return await response.text();
};

t.test('no key and no visitor is in output, titles, metrics or errors', async (t) => {
  const [redis, dir] = await Promise.all([startTestRedis(), tempDir(t)]);
  t.teardown(() => redis.stop());
  const client = new Redis(`${redis.dir}/redis.sock`);
  client.on('error', () => {}); // its server is killed, too
  t.teardown(() => client.disconnect());
  const env = {
    REDIS_URL: redis.url,
    PUBLISHABLE_KEYS: SECRETS.publishable,
    SHOPIFY_SECRET: `${SECRETS.shopify},${SECRETS.shopify}-BEFORE`,
    METRICS_TOKEN: SECRETS.metrics,
    FLUSH_METRICS_PORT: '0',
    LOG_LEVEL: 'trace',
    HOST: '127.0.0.1',
    PORT: '0',
  };
  const start = await started(t, dir, env);
  const ownKey = await apiKey(dir);
  const logged = () => logLines(start.running.stdout());
  const forbidden = (text: string) =>
    MARKS.exec(text)?.[0] ?? (text.includes(ownKey) ? 'the key that it made' : '');

  const errors = await exercise(t, start.url, ownKey);
  t.equal(forbidden(errors), '', 'bodies and headers of errors');

  // A bug, as far as the program can tell: Redis holds something else than it wrote. Its error has the command.
  const visited = await fetch(`${start.url}/product/visit`, {
    method: 'POST',
    body: JSON.stringify({ identity: { sessionId: 'PERSONAL-2' }, productHandle: 'x' }),
  });
  const { profileId } = (await visited.json()) as { profileId: string };
  await client.set(keys.profile(profileId), 'no hash');
  const broken = await fetch(`${start.url}/profile/guest`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': ownKey },
    body: JSON.stringify({ ...VISITOR, customerId: null, sessionId: 'PERSONAL-2' }),
  });
  t.equal(broken.status, 500);
  t.equal(forbidden(await broken.text()), '');
  await until('the bug is logged', () => logged().some(({ msg }) => msg === 'request failed'));

  // A line that ClickHouse refuses, and quotes in its reason.
  const line = `{"event_id":"${VISITOR.email}","type":"add","session_id":"PERSONAL"}\n`;
  await client.xadd(keys.events(0), '*', 'n', '1', 'd', line);
  await until('a dead letter', async () => (await client.xlen(keys.eventsDead(0))) === 1);
  t.match(JSON.stringify(await client.xrange(keys.eventsDead(0), '-', '+')), 'PERSONAL', 'the letter has it');
  await until('it is logged', () => logged().some(({ msg }) => /dead letter/.test(String(msg))));

  const processes = await processesOf(dir);
  for (const title of [/^wishmeter start/, /^wishmeter serve/, /^wishmeter flush/, /^wishmeter clickhouse/])
    t.ok(
      processes.some((process) => title.test(process.title)),
      String(title),
    );
  for (const { pid, title } of processes) {
    t.equal(forbidden(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')), '', title);
  }
  t.match(await metricsOf(start.url), 'wishmeter_http_refused_total');
  t.equal(forbidden(await metricsOf(start.url)), '', 'metrics of serve');
  const port = logged().find(({ msg }) => msg === 'metrics')?.port;
  t.equal(forbidden(await metricsOf(`http://127.0.0.1:${port}`)), '', 'metrics of flush');

  // Redis goes away under it all.
  const pid = redis.pids[0] as number;
  process.kill(pid, 'SIGKILL');
  await fetch(`${start.url}/event`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': ownKey },
    body: JSON.stringify({ identity: VISITOR, type: 'add' }),
  });
  const { stdout, stderr } = await start.stop();
  t.equal(forbidden(stdout), '', 'stdout');
  t.equal(forbidden(stderr), '', 'stderr');
  t.equal(stderr, '');
  t.ok(logLines(stdout).every(({ level, time }) => typeof level === 'number' && typeof time === 'number'));
});

t.test(
  'keys are rotated without a moment in which none is good: both at first, then the new one',
  async (t) => {
    const redis = await startTestRedis();
    t.teardown(() => redis.stop());
    const serve = async (apiKeys: string) => {
      const env = {
        REDIS_URL: redis.url,
        API_KEYS: apiKeys,
        HOST: '127.0.0.1',
        PORT: '0',
        DRAIN_MS: '0',
        METRICS_TOKEN: SECRETS.metrics,
      };
      const running = spawnWishmeter({
        args: ['serve'],
        env: { ...env, SHOPIFY_SECRET: `${SECRETS.shopify},${SECRETS.shopify}-BEFORE` },
      });
      t.teardown(async () => {
        running.child.kill('SIGKILL');
        await running.ended;
      });
      const { port } = await until('it serves', () =>
        logLines(running.stdout()).find(({ msg }) => msg === 'serving'),
      );
      const cmdline = await readFile(`/proc/${running.child.pid}/cmdline`, 'utf8');
      t.notMatch(cmdline, MARKS);
      return { running, url: `http://127.0.0.1:${port}` };
    };
    const both = await serve(`${SECRETS.oldKey},${SECRETS.newKey}`);
    const errors = [await exercise(t, both.url, SECRETS.oldKey), await exercise(t, both.url, SECRETS.newKey)];
    const after = await serve(SECRETS.newKey);
    errors.push(await exercise(t, after.url, SECRETS.newKey));
    const { status } = await fetch(`${after.url}/settings`, { headers: { 'x-api-key': SECRETS.oldKey } });
    t.equal(status, 401, 'the old one is nothing any more');
    t.notMatch(errors.join('\n'), MARKS);
    for (const { running } of [both, after]) {
      running.child.kill('SIGTERM');
      const { stdout, stderr } = await running.ended;
      t.notMatch(stdout + stderr, MARKS);
    }
  },
);
