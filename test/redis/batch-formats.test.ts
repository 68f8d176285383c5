// What each format of batches says of its operations. A batch is bounded by what they bring along, not only by how many they
// are: a script that takes megabytes blocks every other caller of Redis. One that changes anything is numbered: it is applied once.

import t from 'tap';
import { appendFormat } from '../../src/events/appender.js';
import { recordingFormat } from '../../src/events/recording.js';
import type { Batched, BatchFormat } from '../../src/redis/batch-calls.js';
import { guestPlace } from '../../src/redis/place.js';
import { type VisitEntry, visitFormat } from '../../src/visits/visit-batch.js';
import { type Change, type PendingEvent, WishlistBatch } from '../../src/wishlist/wishlist-batch.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { openStore } from '../harness/store.js';

// Three of them are more than a batch takes, two are not.
const LARGE = 'x'.repeat(100_000);
const PROFILE_ID = '1a.s1';
const EVENT = { id: 'e1', type: 'add', line: '{}\n' };
const LARGE_EVENT: PendingEvent = { ...EVENT, line: `${LARGE}\n` };

const addition = (large: Partial<Change & { kind: 'add' }>): Change => ({
  kind: 'add',
  field: 'f',
  creationLine: 'b',
  others: 'o',
  event: EVENT,
  ...large,
});
const CHANGES: Record<string, Change> = {
  "an item's creation line": addition({ creationLine: LARGE }),
  "an item's other lines": addition({ others: LARGE }),
  "an item's event": addition({ event: LARGE_EVENT }),
  "a removal's events": {
    kind: 'remove',
    items: [{ field: 'f', event: LARGE_EVENT, payload: '' }],
  },
};

t.test('batches', async (t) => {
  const redis = await startTestRedis(t);
  const store = await openStore(t, redis, { buckets: 16, onError: (error) => t.fail(error.message) });
  const { keys } = store;
  const sizes: number[] = [];
  const onBatch = (size: number) => sizes.push(size);
  t.beforeEach(() => {
    sizes.length = 0;
  });

  const EVENTS = {
    'events of visitors who were looked for': [
      appendFormat(store, 1e9),
      { line: LARGE, profileId: PROFILE_ID },
    ],
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
    t.test(`${what}: three that are too much together go in two calls`, async (t) => {
      const batcher = store.batcher(format as BatchFormat<Batched<unknown>, unknown>, onBatch);
      t.teardown(() => batcher.close());
      await Promise.all([1, 2, 3].map(() => batcher.run({ ...op })));
      t.same(sizes, [2, 1]);
    });
  }

  for (const [what, change] of Object.entries(CHANGES)) {
    t.test(`${what}: three that are too much together go in two calls`, async (t) => {
      const wishlists = new WishlistBatch(store, { highWater: 1e9 }, onBatch);
      t.teardown(() => wishlists.close());
      await Promise.all([1, 2, 3].map(() => wishlists.make(guestPlace(PROFILE_ID), change)));
      t.same(sizes, [2, 1]);
    });
  }

  t.test('visits', async (t) => {
    const client = connectTo(t, redis.url);
    const batch = store.batcher(visitFormat(keys, 3, 0), onBatch);
    t.teardown(() => batch.close());
    type Kind = VisitEntry['kind'];
    const at = (kind: Kind, handle = 'x') => ({ kind, handle, device: 'tv', ...guestPlace('1.s1') });
    const cases: [numbered: boolean, kinds: Kind[]][] = [
      [false, ['read']],
      [false, ['peek']],
      [false, ['read', 'peek', 'read']],
      [true, ['visit']],
      [true, ['count']],
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
      const answers = ['a', 'd', 'c'].map((handle) => batch.run(at('count', handle)));
      t.match(await Promise.allSettled(answers), [
        { status: 'fulfilled', value: 2 },
        { status: 'rejected', reason: { code: 'too_many_products' } },
        { status: 'fulfilled', value: 2 },
      ]);
    });
  });
});
