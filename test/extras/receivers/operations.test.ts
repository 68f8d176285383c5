// The operations of /receivers: their callers and bodies, secrets that are shown once, and signatures.

import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { receiverKeys } from '../../../src/extras/receivers/keys.js';
import { changeReceiver, createReceiver, signedHeaders } from '../../../src/extras/receivers/receiver.js';
import { inFlightText, parseRecord } from '../../../src/redis/request-record.js';
import { type AppSettings, startApp, TRUSTED } from '../../harness/app.js';
import { startTestRedis } from '../../harness/redis.js';
import { until } from '../../harness/until.js';
import { openDeliveries, startTool } from './fixtures.js';

const redis = await startTestRedis(t);
const ALLOWED = { RECEIVERS_PRIVATE: 'allow' };
const url = 'http://127.0.0.1:9/hook';
const openOne = async (t: Test, settings: AppSettings = {}) => {
  const app = await startApp(t, redis, { env: ALLOWED, ...settings });
  const [deliveries, tool] = [await openDeliveries(t, redis, app.prefix), await startTool(t)];
  return { app, deliveries, tool, id: (await deliveries.receiver(tool)).id };
};
t.test('an unreadable receiver is 404, logged once, removable, and delays no other', async (t) => {
  const logged: string[] = [];
  const { app, deliveries, tool, id } = await openOne(t, { onError: (line) => logged.push(line) });
  const { client, keys } = deliveries.store;
  const made = JSON.parse((await client.hget(receiverKeys(keys).receivers, id)) as string);
  const foreign = ['no JSON', 'null', '{}', { ...made, types: 'add' }, { ...made, url: '/hook' }].map(
    (kept, n) => [`foreign-${n}`, typeof kept === 'string' ? kept : JSON.stringify(kept)] as const,
  );
  await client.hset(receiverKeys(keys).receivers, ...foreign.flat());
  t.match((await app.get('/receivers', TRUSTED)).json, { receivers: [{ id }] });
  t.equal(await app.figure(`receiver_enabled{receiver="${id}"}`), 1);
  await deliveries.send({});
  deliveries.deliverer();
  await until('the others get theirs', () => tool.delivered.length === 1);
  for (const [one] of foreign) {
    const path = `/receivers/${one}`;
    for (const answer of [
      await app.get(path, TRUSTED),
      await app.send('PATCH', path, { isEnabled: true }, TRUSTED),
      await app.post(`${path}/test`, undefined, TRUSTED),
    ])
      t.match(answer, { status: 404, json: { error: /can't be read/ } });
    t.same(logged.filter((line) => line.includes(one)).length, 1, `${one} is named once`);
    t.same((await app.del(path, undefined, TRUSTED)).json, { deleted: true });
  }
  t.equal(await client.hlen(receiverKeys(keys).receivers), 1);
});
t.test(
  'a receiver is made, read, changed and removed, and its secret is shown only when it is new',
  async (t) => {
    const app = await startApp(t, redis, { env: ALLOWED });
    const made = await app.post('/receivers', { url, types: ['add', 'add', 'purchase'] }, TRUSTED);
    t.equal(made.status, 200);
    const { secret, ...shown } = made.json;
    t.match(secret, /^whsec_/);
    t.same(shown, {
      ...{ id: shown.id, url, types: ['add', 'purchase'], includePersonal: false, isEnabled: true },
      ...{
        createdAt: shown.createdAt,
        pending: 0,
        lastSuccessAt: null,
        lastFailureAt: null,
        lastError: null,
      },
    });
    const path = `/receivers/${shown.id}`;
    t.same((await app.get(path, TRUSTED)).json, shown);
    t.same((await app.get('/receivers', TRUSTED)).json, { receivers: [shown] });

    const paused = await app.send('PATCH', path, { isEnabled: false, types: ['*'] }, TRUSTED);
    t.same(paused.json, { ...shown, isEnabled: false, types: ['*'] });
    const rotated = await app.send('PATCH', path, { rotateSecret: true, isEnabled: true }, TRUSTED);
    t.match(rotated.json.secret, /^whsec_/);
    t.not(rotated.json.secret, secret);
    t.same((await app.get(path, TRUSTED)).json, { ...shown, types: ['*'] });

    t.same((await app.del(path, undefined, TRUSTED)).json, { deleted: true });
    for (const answer of [
      await app.get(path, TRUSTED),
      await app.del(path, undefined, TRUSTED),
      await app.send('PATCH', path, { isEnabled: true }, TRUSTED),
      await app.post(`${path}/test`, undefined, TRUSTED),
    ])
      t.match(answer, { status: 404, json: { code: 'not_found' } });
    t.same((await app.get('/receivers', TRUSTED)).json, { receivers: [] });
  },
);
t.test('a wrong receiver is 400 with an issue for each field, and is not made', async (t) => {
  const app = await startApp(t, redis);
  const faults = async (body: object) => {
    const { status, json } = await app.post('/receivers', body, TRUSTED);
    t.equal(status, 400);
    return json.issues.map(({ path }: { path: string }) => path);
  };
  t.same(await faults({}), ['/url', '/types']);
  t.same(await faults({ url: 'http://shop.example/', types: ['sold'] }), ['/url', '/types/0']);
  t.same(await faults({ url: 'https://127.0.0.1/', types: ['*', 'add'] }), ['/url', '/types']);
  const types = ['add'];
  for (const wrong of ['http://shop.example/', 'https://u:p@shop.example/', 'https://127.0.0.1/', 'shop'])
    t.same(await faults({ url: wrong, types }), ['/url'], wrong);
  for (const wrong of [[], ['visit'], ['*', 'add'], 'add'])
    t.ok((await faults({ url, types: wrong })).length > 0, JSON.stringify(wrong));
  t.same((await app.get('/receivers', TRUSTED)).json, { receivers: [] });
  const { id } = (await app.post('/receivers', { url: 'https://8.8.8.8/', types }, TRUSTED)).json;
  for (const wrong of [
    { url: 'https://127.0.0.1/' },
    { url: 'https://u:p@shop.example/' },
    { types: [] },
    { types: ['*', 'add'] },
    { isEnabled: 'no' },
  ]) {
    const changed = await app.send('PATCH', `/receivers/${id}`, wrong, TRUSTED);
    t.match(changed, { status: 400, json: { code: 'invalid_request' } }, JSON.stringify(wrong));
  }
  const unchanged = { url: 'https://8.8.8.8/', types, isEnabled: true };
  t.match((await app.get(`/receivers/${id}`, TRUSTED)).json, unchanged);
});
t.test('at most twenty receivers exist, even if several are made at once', async (t) => {
  const app = await startApp(t, redis, { env: ALLOWED });
  const make = () => app.post('/receivers', { url, types: ['add'] }, TRUSTED);
  const answers = await Promise.all(Array.from({ length: 24 }, make));
  t.equal(answers.filter(({ status }) => status === 200).length, 20);
  t.equal(answers.filter(({ status }) => status === 400).length, 4);
  t.equal((await app.get('/receivers', TRUSTED)).json.receivers.length, 20);
});
t.test(
  'a receiver is made once under an idempotency key, even if the server ends before it answers',
  async (t) => {
    const app = await startApp(t, redis, { env: ALLOWED });
    const { store } = await openDeliveries(t, redis, app.prefix);
    const make = () =>
      app.post('/receivers', { url, types: ['add'] }, { ...TRUSTED, 'idempotency-key': 'crash' });
    const first = await make();
    t.same((await make()).json, first.json);
    const [record = ''] = await store.client.keys(store.keys.request('*').replace(/[{}]/g, '?'));
    const { fingerprint, customer } = parseRecord((await store.client.get(record)) ?? '');
    const inFlight = { id: first.json.id, at: Date.now(), fingerprint, customer, locations: '' };
    await store.client.set(record, inFlightText(inFlight), 'KEEPTTL');
    t.match(await make(), { status: 200, json: first.json });
    t.equal((await app.get('/receivers', TRUSTED)).json.receivers.length, 1);
  },
);
t.test('a receiver is tested once and removed once under an idempotency key', async (t) => {
  const { app, tool, id } = await openOne(t);
  const twice = async (method: string, path: string) => {
    const send = () => app.send(method, path, undefined, { ...TRUSTED, 'idempotency-key': method });
    const first = await send();
    t.equal(first.status, 200);
    t.same((await send()).json, first.json);
  };
  await twice('POST', `/receivers/${id}/test`);
  t.equal(tool.delivered.length, 1);
  await twice('DELETE', `/receivers/${id}`);
});
t.test('a receiver can be paused and removed while Redis is at maxmemory', async (t) => {
  const { app, deliveries, id } = await openOne(t);
  await deliveries.store.client.config('SET', 'maxmemory', '1mb');
  t.teardown(() => deliveries.store.client.config('SET', 'maxmemory', '0'));
  t.match(await app.send('PATCH', `/receivers/${id}`, { isEnabled: false }, TRUSTED), { status: 200 });
  t.match(await app.del(`/receivers/${id}`, undefined, TRUSTED), { json: { deleted: true } });
});
t.test("a receiver's removal that ended half-way is finished by the next one", async (t) => {
  const { app, deliveries, id } = await openOne(t);
  await deliveries.send({});
  const { client, keys } = deliveries.store;
  await client.hdel(receiverKeys(keys).receivers, id);
  t.equal((await app.del(`/receivers/${id}`, undefined, TRUSTED)).status, 404);
  t.equal(await client.exists(...Object.values(receiverKeys(keys).deliveries(id))), 0);
});
t.test('POST /receivers/:id/test says what the receiver answered, or why there was no answer', async (t) => {
  const { app, tool, id } = await openOne(t);
  const test = async () => (await app.post(`/receivers/${id}/test`, undefined, TRUSTED)).json;
  t.same(await test(), { status: 200 });
  t.match(tool.delivered[0]?.body, { type: 'test', data: Object });
  tool.answer = (res) => void res.writeHead(302, { location: 'http://169.254.169.254/' }).end();
  t.same(await test(), { status: 302 });
  await app.send('PATCH', `/receivers/${id}`, { url: 'http://127.0.0.1:1/' }, TRUSTED);
  t.same(await test(), { error: 'ECONNREFUSED' });
  const { json } = await app.get(`/receivers/${id}`, TRUSTED);
  t.match(
    json,
    { pending: 0, lastSuccessAt: null, lastFailureAt: null, lastError: null },
    'it counts nowhere',
  );
});
t.test('GET /receivers/:id shows pending deliveries, the last success and the last failure', async (t) => {
  const { app, deliveries, tool, id } = await openOne(t);
  await deliveries.send({}, {});
  const read = async () => (await app.get(`/receivers/${id}`, TRUSTED)).json;
  t.match(await read(), { pending: 2, lastSuccessAt: null });
  const late = () => app.figure(`receiver_oldest_due_seconds{receiver="${id}"}`);
  await until('it shows that they wait', async () => ((await late()) ?? 0) > 0);
  let answers = 0;
  tool.answer = (res) => void res.writeHead(answers++ === 0 ? 503 : 200).end();
  deliveries.deliverer();
  await until('both were delivered', async () => (await read()).pending === 0);
  for (const [name, expected] of Object.entries({ enabled: 1, deliveries_total: 2, failures_total: 1 }))
    t.equal(await app.figure(`receiver_${name}{receiver="${id}"}`), expected, name);
  t.equal(await app.figure(`receiver_pending_deliveries{receiver="${id}"}`), 0);
  await until('nothing is due', async () => (await late()) === 0);
  await deliveries.receivers.change(id, { isEnabled: false });
  await deliveries.send({});
  await until('it is paused', async () => (await app.figure(`receiver_enabled{receiver="${id}"}`)) === 0);
  t.equal(await late(), undefined, 'nothing is due to a receiver that is paused');
  await deliveries.receivers.change(id, { isEnabled: true });
  const status = await read();
  t.equal(status.lastError, 'answered 503');
  t.ok(Date.parse(status.lastSuccessAt) >= Date.parse(status.createdAt));
  t.ok(Date.parse(status.lastFailureAt) >= Date.parse(status.createdAt));
});

const DAY = 24 * 60 * 60_000;
const NEW = { url: 'https://shop.example/hook', types: ['add'], includePersonal: false } as const;
t.test('a rotated secret, and up to three before it, sign for another day', async (t) => {
  const now = Date.now();
  const first = createReceiver(NEW);
  const second = changeReceiver(first, { rotateSecret: true }, now);
  let receiver = changeReceiver(second, { rotateSecret: true }, now + 1);
  const headersAt = (at: number) => signedHeaders(receiver, 'id-1', '{}', at);
  for (const { secret } of [first, second, receiver])
    t.same(new Webhook(secret).verify('{}', headersAt(now + 2)), {});
  const signaturesAt = (at: number) => headersAt(at)['webhook-signature']?.split(' ').length;
  t.equal(new Set([first, second, receiver].map(({ secret }) => secret)).size, 3);
  t.same([now + DAY - 1, now + DAY, now + DAY + 1].map(signaturesAt), [3, 2, 1]);
  for (let i = 0; i < 99; i++) receiver = changeReceiver(receiver, { rotateSecret: true }, now + 2);
  t.equal(receiver.previous.length, 4, 'no more than a header has room for');
  const later = changeReceiver(receiver, { rotateSecret: true }, now + 2 * DAY);
  t.same(later.previous, [{ secret: receiver.secret, until: now + 3 * DAY }]);
});
