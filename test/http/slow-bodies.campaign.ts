// A body that does not come is 408 after 10 s, although uWebSockets.js cuts connections that are silent for 8 to 10 s:
// the short form, with a time-out of the test's, is in routes.test.ts.

import t from 'tap';
import { KEY, startApp } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

t.test('a silent client is answered 408 and not cut', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);
  const answers = ['', '{"identity"', '{'].map(async (start) => {
    const wire = await Wire.open(t, app.port);
    wire.sendHead('POST', '/product/visit', { 'x-api-key': KEY, 'content-length': '1000' });
    if (start !== '') wire.send(start);
    const answer = await wire.next();
    t.match(answer, { status: 408, headers: { connection: 'close' } }, start);
    await wire.ended();
  });
  await Promise.all(answers);
});
