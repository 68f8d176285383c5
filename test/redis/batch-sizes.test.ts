// A batch is bounded by what its operations bring along, not only by how many they are: a script that takes megabytes
// blocks every other caller of Redis.

import t from 'tap';
import { appendFormat } from '../../src/events/appender.js';
import { recordingFormat } from '../../src/events/recording.js';
import { placeOf } from '../../src/redis/at-profile.js';
import type { Batched, BatchFormat } from '../../src/redis/batcher.js';
import { Store } from '../../src/redis/store.js';
import { type Change, type PendingEvent, WishlistBatch } from '../../src/wishlist/wishlist-batch.js';
import { startTestRedis } from '../harness/redis.js';

// Three of them are more than a batch takes, two are not.
const LARGE = 'x'.repeat(100_000);
const PROFILE_ID = '1a.s1';
const EVENT = { id: 'e1', type: 'add', line: '{}\n' };
const LARGE_EVENT: PendingEvent = { ...EVENT, line: `${LARGE}\n` };

const addition = (large: Partial<Change & { kind: 'add' }>): Change => ({
  kind: 'add',
  field: 'f',
  born: 'b',
  others: 'o',
  event: EVENT,
  ...large,
});
const CHANGES: Record<string, Change> = {
  "an item's lines that it is born with": addition({ born: LARGE }),
  "an item's other lines": addition({ others: LARGE }),
  "an item's event": addition({ event: LARGE_EVENT }),
  "a removal's events": {
    kind: 'remove',
    items: [{ field: 'f', event: LARGE_EVENT, payload: '' }],
  },
};

t.test('three operations of a turn that are too much together go in two calls', async (t) => {
  const redis = await startTestRedis(t);
  const store = await Store.open({
    urls: redis.urls,
    name: 'test',
    timeoutMs: 20_000,
    keyPrefix: 'b',
    buckets: 16,
    onError: (error) => t.fail(error.message),
  });
  t.teardown(() => store.close());
  const { keys } = store;
  const sizes: number[] = [];
  const onBatch = (size: number) => sizes.push(size);
  t.beforeEach(() => {
    sizes.length = 0;
  });

  const EVENTS = {
    'events of visitors who were looked for': [appendFormat(keys, 'events', 1e9), { line: LARGE, stream: 0 }],
    'events with their visitors': [
      recordingFormat(store, 1e9),
      {
        line: LARGE,
        type: 'add',
        profileId: PROFILE_ID,
        isRoom: false,
        field: '',
        checked: 's:1',
        own: PROFILE_ID,
      },
    ],
  } as const;
  for (const [what, [format, op]] of Object.entries(EVENTS)) {
    t.test(what, async (t) => {
      const batcher = store.batcher(format as BatchFormat<Batched<unknown>, unknown>, onBatch);
      t.teardown(() => batcher.close());
      await Promise.all([1, 2, 3].map(() => batcher.run({ ...op })));
      t.same(sizes, [2, 1]);
    });
  }

  for (const [what, change] of Object.entries(CHANGES)) {
    t.test(what, async (t) => {
      const wishlists = new WishlistBatch(store, { highWater: 1e9 }, onBatch);
      t.teardown(() => wishlists.close());
      await Promise.all([1, 2, 3].map(() => wishlists.make(placeOf(PROFILE_ID), change)));
      t.same(sizes, [2, 1]);
    });
  }
});
