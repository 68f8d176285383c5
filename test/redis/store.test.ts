// Single calls of the store: a change that was answered 503 is not applied later, and one whose reply was lost is asked
// for again.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { loadScript } from '../../src/redis/scripts.js';
import { Store } from '../../src/redis/store.js';
import { startProxy } from '../harness/proxy.js';
import { connectTo, startTestRedis } from '../harness/redis.js';

const PUT = loadScript('put');
const GET = { name: 'get', source: "return redis.call('GET', KEYS[1])", sha: '0'.repeat(40) };
const OPTIONS = {
  name: 'test',
  timeoutMs: 30_000,
  keyPrefix: 's',
  buckets: 16,
  onError: () => {},
};

t.test('a change', async (t) => {
  const redis = await startTestRedis(t);
  const proxy = await startProxy(t, redis.url);
  const direct = connectTo(t, redis.url);
  const store = await Store.open({ ...OPTIONS, urls: [proxy.url] });
  t.teardown(() => store.close());
  const put = (key: string) => store.change(PUT, [`s:{x}:${key}`], ['v']);

  t.test('that Redis gets after it was answered 503 does nothing', async (t) => {
    t.equal(await put('warm'), 1);
    const hasty = await Store.open({ ...OPTIONS, urls: [proxy.url], timeoutMs: 1_000 });
    t.teardown(() => hasty.close());
    proxy.freeze();
    await t.rejects(hasty.change(PUT, ['s:{x}:late'], ['v']), { code: 'unavailable' });
    proxy.thaw();
    await sleep(200); // all of it has passed the proxy
    t.equal(await put('after'), 1);
    t.equal(await direct.exists('s:{x}:late'), 0);
  });

  t.test('whose reply is lost is asked for again', async (t) => {
    const cuts = proxy.cuts;
    proxy.cutReplyAfter(0, new RegExp(PUT.sha));
    t.equal(await put('lost'), 1);
    t.equal(proxy.cuts, cuts + 1);
  });

  t.test('that no replica has is 503, although the master has it', async (t) => {
    const asking = await Store.open({ ...OPTIONS, urls: [redis.url], replicas: 1, timeoutMs: 1_000 });
    t.teardown(() => asking.close());
    await t.rejects(asking.change(PUT, ['s:{x}:alone'], ['v']), { code: 'unavailable' });
    t.equal(await direct.exists('s:{x}:alone'), 1);
    const reading = await Store.open({ ...OPTIONS, urls: [redis.url], replicas: 1 });
    t.teardown(() => reading.close());
    t.equal(await reading.run(GET, ['s:{x}:alone'], []), 'v', 'reads do not wait');
  });

  t.test('that Redis does not know the script of goes along in full', async (t) => {
    await direct.script('FLUSH');
    t.equal(await put('flushed'), 1);
  });

  t.test("that raises an error which is ours is not taken for Redis's", async (t) => {
    await direct.hset('s:{x}:hash', 'a', '1');
    await t.rejects(store.run(GET, ['s:{x}:hash'], []), { message: /^WRONGTYPE/ });
  });
});

t.test('a read whose store is closed ends at once, not when its time is over', async (t) => {
  const redis = await startTestRedis(t);
  const store = await Store.open({ ...OPTIONS, urls: [redis.url], timeoutMs: 3_600_000 });
  const read = store.call((client) => client.blpop('s:nothing', 0));
  setImmediate(() => store.close());
  await t.rejects(read, { code: 'unavailable' });
});
