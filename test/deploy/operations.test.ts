// docs/operations.md, run: both databases are lost and restored from a backup under way, by the commands that stand there.
// What should be missing is missing, and nothing else. Each loss by itself, and the other ways to copy: operations.campaign.ts.

import t from 'tap';
import { backedUp, programs } from './operations.js';

t.test('both databases are lost, and restored as they were when they were backed up', programs, async (t) => {
  const { shop, counted } = await backedUp(t, 'rdb');
  await shop.stop();
  await Promise.all([shop.lose('redis'), shop.lose('clickhouse')]);
  await shop.follow('restore-rdb');
  await Promise.all([shop.startDatabase.redis(), shop.startDatabase.clickhouse()]);
  await shop.follow('restore-clickhouse');
  await shop.start();
  await shop.traffic('f');
  await shop.untilShown(['f']);
  t.same(await shop.shown(), ['a', 'b', 'c', 'f'], 'what was acknowledged before the backup, once');
  t.equal(await shop.count('ada'), counted + 1);
});
