// Files that are prepared at the first request for them.

import { createHook } from 'node:async_hooks';
import t from 'tap';
import { startApp } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';

const redis = await startTestRedis();
t.teardown(() => redis.stop());

t.test('what comes after the first request for a large file is not held up by it', async (t) => {
  const app = await startApp(t, redis);
  const order: string[] = [];
  const ask = (path: string) => app.get(path).then(({ status }) => order.push(`${path} ${status}`));
  await Promise.all([ask('/docs/swagger-ui.js'), ask('/healthz')]);
  t.same(order, ['/healthz 200', '/docs/swagger-ui.js 200']);
});

t.test('requests that come while a file is compressed wait for the one compression', async (t) => {
  const app = await startApp(t, redis);
  let compressions = 0;
  const hook = createHook({
    init(_, type) {
      if (type === 'ZLIB') compressions++;
    },
  }).enable();
  t.teardown(() => hook.disable());
  for (const path of ['/docs/swagger-ui.js', '/docs/swagger-ui.css', '/beacon.js']) {
    compressions = 0;
    const answers = await Promise.all(Array.from({ length: 8 }, () => app.get(path)));
    t.equal(compressions, 1, path);
    t.equal(new Set(answers.map(({ text }) => text)).size, 1);
    await app.get(path);
    t.equal(compressions, 1, 'and so do later ones');
  }
});
