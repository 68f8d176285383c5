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

t.test('all first requests for a file wait for one compression, which a thread does', async (t) => {
  const app = await startApp(t, redis);
  const begun = new Set<number>();
  const doneByThread = new Set<number>();
  const hook = createHook({
    init(id, type) {
      if (type === 'ZLIB') begun.add(id);
    },
    // Called for what comes back from a thread, and never for gzipSync.
    before(id) {
      if (begun.has(id)) doneByThread.add(id);
    },
  }).enable();
  t.teardown(() => hook.disable());
  for (const path of ['/docs/swagger-ui.js', '/docs/swagger-ui.css', '/beacon.js']) {
    begun.clear();
    doneByThread.clear();
    const answers = await Promise.all(Array.from({ length: 8 }, () => app.get(path)));
    t.equal(begun.size, 1, path);
    t.same(doneByThread, begun);
    t.equal(new Set(answers.map(({ text }) => text)).size, 1);
    await app.get(path);
    t.equal(begun.size, 1, 'later ones need none');
  }
});
