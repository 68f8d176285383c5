// `internal` is a bug of ours: 500, and always a line in the log with the request's id, also where our own code threw
// it as an error of the contract.

import { pino } from 'pino';
import t, { type Test } from 'tap';
import { serve } from '../../src/app/serve.js';
import { readConfig } from '../../src/config.js';
import { createKeys } from '../../src/redis/keys.js';
import { KEY } from '../harness/app.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';

t.test('internal errors are logged with the id of their request', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const direct = connectTo(redis.url);
  t.teardown(() => direct.disconnect());
  const lines: string[] = [];
  const env = { HOST: '127.0.0.1', PORT: '0', REDIS_URL: redis.url, API_KEYS: KEY };
  const config = { ...readConfig(env), REDIS_TIMEOUT_MS: 20_000 };
  const app = await serve(config, pino({ level: 'error' }, { write: (line) => lines.push(line) }));
  t.teardown(() => app.close());
  const post = async (path: string, body: object, requestId = 'r') => {
    const answer = await fetch(`http://127.0.0.1:${app.port}${path}`, {
      method: 'POST',
      headers: { 'x-api-key': KEY, 'content-type': 'application/json', 'x-request-id': requestId },
      body: JSON.stringify(body),
    });
    return { status: answer.status, json: (await answer.json()) as Record<string, string> };
  };
  const keys = createKeys('wm');
  const profileOf = async (sessionId: string) => {
    const { json } = await post('/product/visit', { identity: { sessionId }, productHandle: 'x' });
    return json['profileId'] as string;
  };
  const expectLogged = (t: Test, id: string, answer: Awaited<ReturnType<typeof post>>) => {
    t.match(answer, { status: 500, json: { code: 'internal' } });
    t.match(
      lines.map((line) => JSON.parse(line)),
      [{ requestId: id, err: { message: /./ } }],
    );
    lines.length = 0;
  };

  t.test("an error of Redis's that should not be", async (t) => {
    await direct.set(keys.items(await profileOf('a')), 'not a hash');
    expectLogged(t, 'wrong-type', await post('/item/list', { identity: { sessionId: 'a' } }, 'wrong-type'));
  });

  t.test('an error that our code throws as such', async (t) => {
    const profile = await profileOf('b');
    await direct.hset(keys.profile(profile), 'heir', profile);
    expectLogged(t, 'circle', await post('/item/list', { identity: { sessionId: 'b' } }, 'circle'));
  });
});
