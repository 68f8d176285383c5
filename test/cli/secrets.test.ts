// Keys and visitors stay where they belong: neither is in what the processes write, in their titles, in metrics or
// in errors, also where something fails. The real program, with secrets and visitors that can be searched for.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { putMigrated } from '../harness/clickhouse.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { processesOf } from './processes.js';
import { logLines, started } from './started.js';
import { tempDir, until } from './wishmeter.js';

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
  const good = { authorization: `Bearer ${key}` };
  const event = { identity: VISITOR, type: 'add', payload: { productId: 'PERSONAL' } };
  const strange = { ...VISITOR, email: 'PERSONAL', device: 'PERSONAL'.repeat(9) };
  const wrong = [
    { authorization: `Bearer ${WRONG}` },
    { authorization: `Bearer ${key}${WRONG}` },
    { authorization: `Basic ${WRONG}` },
    { 'x-api-key': WRONG },
    { 'x-api-key': SECRETS.shopify },
    { 'x-api-key': SECRETS.metrics },
  ];
  const calls: [path: string, status: number, headers?: object, body?: unknown][] = [
    ['/event', 200, good, event],
    ['/event', 200, { 'x-api-key': key }, event],
    ...wrong.map((headers) => ['/event', 401, headers, event] as [string, number, object, unknown]),
    [`/product/visit?key=${WRONG}`, 401, {}, { identity: VISITOR, productHandle: 'x' }],
    [`/item/list?signature=${WRONG}`, 401, {}, { identity: VISITOR }],
    ['/webhook/purchase', 401, { 'x-shopify-hmac-sha256': WRONG }, { email: VISITOR.email }],
    ['/metrics', 401, { authorization: `Bearer ${WRONG}` }],
    ['/event', 400, good, `{"identity":{"sessionId":"${VISITOR.sessionId}"`],
    ['/event', 400, good, { ...event, type: VISITOR.email }],
    ['/event', 400, good, { ...event, identity: strange }],
    [`/PERSONAL/${WRONG}`, 404, good],
  ];
  const seen: string[] = [];
  for (const [path, status, headers, body] of calls) {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(url + path, {
      headers: { 'content-type': 'application/json', ...headers },
      ...(text === undefined ? {} : { method: 'POST', body: text }),
    });
    t.equal(response.status, status, `${path} ${JSON.stringify(headers)}`);
    const answer = await response.text();
    if (!response.ok) seen.push(answer, JSON.stringify([...response.headers]));
  }
  return seen.join('\n');
}

const metricsOf = async (url: string) => {
  const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${SECRETS.metrics}` } });
  return await response.text();
};

t.test('no key and no visitor is in output, titles, metrics or errors', async (t) => {
  const [redis, dir] = await Promise.all([startTestRedis(t), tempDir(t)]);
  await putMigrated(join(dir, 'clickhouse'), 'wishmeter');
  const client = connectTo(t, redis.url);
  client.on('error', () => {}); // its server is killed, too
  const env = {
    REDIS_URL: redis.url,
    PUBLISHABLE_KEYS: SECRETS.publishable,
    API_KEYS: `${SECRETS.oldKey},${SECRETS.newKey}`,
    SHOPIFY_SECRET: `${SECRETS.shopify},${SECRETS.shopify}-BEFORE`,
    METRICS_TOKEN: SECRETS.metrics,
    FLUSH_METRICS_PORT: '0',
    LOG_LEVEL: 'trace',
    HOST: '127.0.0.1',
    PORT: '0',
  };
  const start = await started(t, dir, env);
  const logged = () => logLines(start.running.stdout());
  // As while keys are rotated.
  for (const key of [SECRETS.oldKey, SECRETS.newKey])
    t.notMatch(await exercise(t, start.url, key), MARKS, 'bodies and headers of errors');

  const post = (path: string, body: object) =>
    fetch(start.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': SECRETS.newKey },
      body: JSON.stringify(body),
    });
  // A bug, as far as the program can tell: Redis holds something else than it wrote. Its error has the command.
  const guest = { sessionId: 'PERSONAL-2' };
  const visited = await post('/product/visit', { identity: guest, productHandle: 'x' });
  const { profileId } = (await visited.json()) as { profileId: string };
  await client.set(keys.profile(profileId), 'no hash');
  const broken = await post('/profile/guest', { ...VISITOR, customerId: null, ...guest });
  t.equal(broken.status, 500);
  t.notMatch(await broken.text(), MARKS);
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
    t.notMatch(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''), MARKS, title);
  }
  t.match(await metricsOf(start.url), 'wishmeter_http_refused_total');
  t.notMatch(await metricsOf(start.url), MARKS, 'metrics of serve');
  const port = logged().find(({ msg }) => msg === 'metrics')?.port;
  t.notMatch(await metricsOf(`http://127.0.0.1:${port}`), MARKS, 'metrics of flush');

  // Redis goes away under it all.
  const pid = redis.pids[0] as number;
  process.kill(pid, 'SIGKILL');
  await post('/event', { identity: VISITOR, type: 'add' });
  const { stdout, stderr } = await start.stop();
  t.notMatch(stdout, MARKS, 'stdout');
  t.notMatch(stderr, MARKS, 'stderr');
  t.equal(stderr, '');
  t.ok(logLines(stdout).every(({ level, time }) => typeof level === 'number' && typeof time === 'number'));
});
