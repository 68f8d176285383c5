// docs/operations.md, run: each loss, and the restore of it by the commands that stand there. What should be missing is
// missing, and nothing else. In short: operations.test.ts.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { apiKey, nothingLeft, shopAt, sql, started } from '../cli/started.js';
import { tempDir, until } from '../cli/wishmeter.js';
import { backedUp, follow, programs } from './operations.js';

for (const kind of ['aof', 'rdb'] as const) {
  t.test(`Redis is lost, and restored from an ${kind} older than ClickHouse`, programs, async (t) => {
    const { shop, counted } = await backedUp(t, kind);
    const profileId = (await shop.visit('grace')).profileId;
    await shop.stop();
    await shop.lose('redis');
    await shop.follow(`restore-${kind}`);
    await shop.startDatabase.redis();
    await shop.start();
    t.equal(await shop.count('ada'), counted, 'counts are those of the backup');
    await shop.traffic('e');
    await shop.untilShown(['e']);
    t.same(await shop.shown(), ['a', 'b', 'c', 'd', 'e'], 'every event, once');
    t.equal((await shop.visit('grace')).profileId, profileId, 'ids are as before');
    // Five of the one, two of the other; that of `b` waited in the backup, and had been flushed.
    await until('every visit, once', async () => (await shop.visitsShown()) === 7);
  });
}

t.test('ClickHouse is lost, and restored as it was before Redis', programs, async (t) => {
  const { shop } = await backedUp(t, 'rdb');
  await shop.flush.stop();
  const visits = await shop.traffic('e'); // it waits in Redis
  await shop.stop();
  await shop.lose('clickhouse');
  await shop.startDatabase.clickhouse();
  await shop.follow('restore-clickhouse');
  await shop.follow('restore-clickhouse'); // once more doubles nothing
  await shop.start();
  await shop.untilShown(['e']);
  t.same(await shop.shown(), ['a', 'b', 'c', 'e'], 'what was flushed after the backup is gone');
  t.equal(await shop.count('ada'), visits, 'every count is there');
});

t.test('an embedded start: DATA_DIR copied and put back', async (t) => {
  const dir = await tempDir(t);
  const [DATA_DIR, BACKUP] = [join(dir, 'data'), join(dir, 'backup')];
  await mkdir(BACKUP);
  const follows = (name: string) => follow(t, name, { DATA_DIR, BACKUP });
  const first = await started(t, DATA_DIR);
  const before = shopAt(first.url, await apiKey(DATA_DIR));
  await before.visit({ sessionId: 'ada' });
  await before.event({ sessionId: 'ada' }, 'add', { productId: 'a' });
  await first.stop();
  await follows('backup-embedded');
  const second = await started(t, DATA_DIR);
  await shopAt(second.url, await apiKey(DATA_DIR)).visit({ sessionId: 'ada' });
  await second.stop();
  await nothingLeft(DATA_DIR);
  await follows('restore-embedded');
  const third = await started(t, DATA_DIR);
  const after = shopAt(third.url, await apiKey(DATA_DIR));
  t.equal(await after.count({ sessionId: 'ada' }), 1);
  await until('the event is in ClickHouse', async () => {
    return (await sql(third.clickhouseUrl, 'SELECT product_id FROM events')) === 'a';
  });
  await third.stop();
});
