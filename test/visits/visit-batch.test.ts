// visitFormat: what changes something is numbered, so that a batch whose reply was lost is not applied twice.

import t from 'tap';
import { Store } from '../../src/redis/store.js';
import { type Entry, visitFormat } from '../../src/visits/visit-batch.js';
import { connectTo, startTestRedis } from '../harness/redis.js';

t.test('a batch is numbered where any of its operations writes', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const store = await Store.open({
    urls: redis.urls,
    name: 'batch test',
    timeoutMs: 20_000,
    keyPrefix: 'b',
    buckets: 16,
    onError: () => {},
  });
  t.teardown(() => store.close());
  const sizes: number[] = [];
  const batch = store.batcher(visitFormat(store.keys, 3, 0), (size) => sizes.push(size));
  t.teardown(() => batch.close());
  type Kind = Entry['kind'];
  const at = (kind: Kind, handle = 'x') => ({
    ...{ kind, isRoom: false, name: 's:1', field: '', own: '1.s1', profileId: '1.s1', handle, device: 'tv' },
  });
  const cases: [numbered: boolean, kinds: Kind[]][] = [
    [false, ['read']],
    [false, ['peek']],
    [false, ['read', 'peek', 'read']],
    [true, ['visit']],
    [true, ['visitAndCount']],
    [true, ['reset']],
    [true, ['resolve']],
    [true, ['read', 'reset', 'read']],
    [true, ['peek', 'visit']],
  ];
  for (const [isNumbered, kinds] of cases) {
    for (const key of await client.keys('*:lane:*')) await client.del(key);
    sizes.length = 0;
    await Promise.all(kinds.map((kind) => batch.run(at(kind))));
    t.same(sizes, [kinds.length], `${kinds}: one batch`);
    t.equal((await client.keys('*:lane:*')).length, isNumbered ? 1 : 0, `${kinds}: numbered ${isNumbered}`);
  }

  t.test('one product too many is refused, the others of its batch are answered', async (t) => {
    await batch.run(at('reset'));
    for (const handle of ['a', 'b', 'c']) await batch.run(at('visit', handle));
    const answers = ['a', 'd', 'c'].map((handle) => batch.run(at('visitAndCount', handle)));
    t.match(await Promise.allSettled(answers), [
      { status: 'fulfilled', value: 2 },
      { status: 'rejected', reason: { code: 'too_many_products' } },
      { status: 'fulfilled', value: 2 },
    ]);
  });
});
