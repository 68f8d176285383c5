// Who may call: keys, and what VISIT_ACCESS leaves open to callers without one.

import t, { type Test } from 'tap';
import { type Headers, KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';

const PATH = '/product/visit';

/** All three visit operations, and their statuses. */
async function statuses(
  app: TestApp,
  identity: Record<string, string>,
  headers: Headers = {},
): Promise<number[]> {
  const body = { identity, productHandle: 'x' };
  const query = withQuery(PATH, { ...identity, productHandle: 'x' });
  const answers = [
    await app.post(PATH, body, headers),
    await app.get(query, headers),
    await app.del(PATH, body, headers),
    await app.del(query, undefined, headers),
  ];
  return answers.map(({ status }) => status);
}

const OPEN = [200, 200, 200, 200];
const CLOSED = [401, 401, 401, 401];

t.test('access', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const session = { sessionId: 's' };
  const customer = { customerId: '42' };
  const both = { sessionId: 's-both', customerId: '43' };

  const visitAccess = async (
    t: Test,
    value: string,
    expected: { session: number[]; customer: number[]; both: number[] },
  ) => {
    const app = await startApp(t, redis, { env: { VISIT_ACCESS: value } });
    const before = await dumpRedis(redis, app.prefix);
    t.same(await statuses(app, session), expected.session, 'a session');
    const after = await dumpRedis(redis, app.prefix);
    if (expected.session === CLOSED) t.same(after, before);
    t.same(await statuses(app, customer), expected.customer, 'a customer');
    t.same(await statuses(app, both), expected.both, 'both');
    if (expected.customer === CLOSED) t.same(await dumpRedis(redis, app.prefix), after);
    for (const identity of [session, customer, both])
      t.same(await statuses(app, identity, TRUSTED), OPEN, 'with a key');
  };

  t.test('VISIT_ACCESS=session: without a credential a session, no customer', (t) =>
    visitAccess(t, 'session', { session: OPEN, customer: CLOSED, both: CLOSED }),
  );
  t.test('VISIT_ACCESS=open: without a credential anyone', (t) =>
    visitAccess(t, 'open', { session: OPEN, customer: OPEN, both: OPEN }),
  );
  t.test('VISIT_ACCESS=key: no caller without a credential', (t) =>
    visitAccess(t, 'key', { session: CLOSED, customer: CLOSED, both: CLOSED }),
  );
  t.test('VISIT_ACCESS is session where it is not given', async (t) => {
    const app = await startApp(t, redis);
    t.same([...(await statuses(app, session)), ...(await statuses(app, customer))], [...OPEN, ...CLOSED]);
  });

  t.test('a key is taken as Bearer and as X-API-Key, and each of several keys is', async (t) => {
    const other = 'another-key-of-16-and-more';
    const app = await startApp(t, redis, { env: { API_KEYS: `${KEY}, ${other}`, VISIT_ACCESS: 'key' } });
    for (const key of [KEY, other]) {
      for (const headers of [
        { authorization: `Bearer ${key}` },
        { authorization: `bearer ${key}` },
        { authorization: `BEARER   ${key}` },
        { 'x-api-key': key },
        { 'X-API-KEY': key },
      ]) {
        t.same(await statuses(app, customer, headers), OPEN, Object.keys(headers).join());
      }
    }
  });

  t.test('a wrong credential is 401 with WWW-Authenticate, also where none is needed', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
    const before = await dumpRedis(redis, app.prefix);
    const wrong: Headers[] = [
      { 'x-api-key': 'x' },
      { 'x-api-key': `${KEY}x` },
      { 'x-api-key': KEY.slice(0, -1) },
      { 'x-api-key': KEY.toUpperCase() },
      { 'x-api-key': `Bearer ${KEY}` },
      { authorization: KEY },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: `Bearer ${KEY} ${KEY}` },
      { authorization: `Bearer ${KEY},` },
      { authorization: `Basic ${Buffer.from(`x:${KEY}`).toString('base64')}` },
      { authorization: `Token ${KEY}` },
    ];
    for (const headers of wrong) {
      t.same(await statuses(app, session, headers), CLOSED, JSON.stringify(headers));
      const answer = await app.post('/event', { identity: session, type: 'add' }, headers);
      t.match(answer, {
        status: 401,
        headers: { 'www-authenticate': 'Bearer' },
        json: { code: 'unauthorized', error: String },
      });
      t.notMatch(answer.text, KEY, 'keys are never told');
    }
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('a credential is asked for before the body is looked at', async (t) => {
    const app = await startApp(t, redis);
    t.equal((await app.post('/event', '{')).status, 401);
    t.equal((await app.post('/event', 'x'.repeat(100_000))).status, 401);
    t.equal((await app.post('/event', {}, { 'content-type': 'text/html' })).status, 401);
  });

  t.test('a caller without a credential never links the two ids that it names', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
    const visit = (identity: object, headers: Headers = {}) =>
      app.post(`${PATH}?count=true`, { identity, productHandle: 'x' }, headers);
    const both = { customerId: 'c1', sessionId: 's1' };
    const first = await visit(both);
    t.equal(
      (await visit({ customerId: 'c1' })).json.profileId,
      first.json.profileId,
      "the customer's profile",
    );
    t.not((await visit({ sessionId: 's1' })).json.profileId, first.json.profileId);
    t.same(await statuses(app, both), OPEN);
    t.not(
      (await visit({ sessionId: 's1' })).json.profileId,
      (await visit({ customerId: 'c1' })).json.profileId,
      'still two',
    );
  });
});
