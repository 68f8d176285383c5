// Guards: a guest who is met before something is done for it waits for replicas, as all that may not be lost does; one
// whose count is only read does not.

import t from 'tap';
import { meetFormat } from '../../src/identity/meet-batch.js';
import { Store } from '../../src/redis/store.js';
import { startTestRedis } from '../harness/redis.js';

t.test('what may not be lost is answered 503 where no replica has it', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const store = await Store.open({
    ...{ name: 'test', timeoutMs: 1_000, keyPrefix: 'm', buckets: 16, eventShards: 1, onError: () => {} },
    urls: [redis.url],
    replicas: 1,
  });
  t.teardown(() => store.close());
  const batch = store.batcher(meetFormat(store.keys, store.isCluster));
  const guest = { name: 's:guest', own: '1.sGuest', dayS: '86400' };
  t.equal(await batch.run({ ...guest, mayBeLost: true }), 0, 'unknown');
  await t.rejects(batch.run({ ...guest, mayBeLost: false }), { code: 'unavailable' });
});
