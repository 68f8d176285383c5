// Guards: a visitor whom this process has met is known until the day ends, however many others come, and nobody else is.

import t from 'tap';
import { meetFormat } from '../../src/identity/meet-batch.js';
import { createProfileIds } from '../../src/identity/profile-id.js';
import { Seen } from '../../src/identity/seen.js';
import { Store } from '../../src/redis/store.js';
import { startTestRedis } from '../harness/redis.js';

const ids = createProfileIds('a'.repeat(64), 16_384);
const visitors = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => ids.of(`s:${from + i}`));
/** How many of them are known. */
const known = (seen: Seen, some: readonly string[]) => some.filter((id) => seen.has(id)).length;

t.test('those who were met are known, and no others', async (t) => {
  const seen = new Seen();
  const met = visitors(0, 20_000);
  for (let round = 0; round < 2; round++) for (const id of met) if (!seen.has(id)) seen.add(id);
  t.equal(known(seen, met), 20_000);
  t.equal(known(seen, visitors(20_000, 50_000)), 0);
});

t.test(
  'a table that is too small gives way to a larger one, and all are known again once they were met again',
  async (t) => {
    const seen = new Seen();
    const met = visitors(0, 150_000);
    for (let round = 0; round < 3; round++) for (const id of met) if (!seen.has(id)) seen.add(id);
    t.equal(known(seen, met), 150_000);
    t.equal(known(seen, visitors(150_000, 200_000)), 0);
  },
);

t.test('a day ends for all of them, and where the clock was set back, too', async (t) => {
  let now = 1_000_000;
  const seen = new Seen(60, () => now);
  const met = visitors(0, 100);
  known(seen, met); // the day begins
  for (const at of [now + 60_000, now - 1]) {
    for (const id of met) seen.add(id);
    t.equal(known(seen, met), 100);
    now = at;
    t.equal(known(seen, met), 0);
  }
});

t.test(
  'a guest who is met before something is done for it waits for replicas; one whose count is read does not',
  async (t) => {
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
  },
);
