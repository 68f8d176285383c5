// A data folder that `wishmeter start` of commit a1cc37c left (a1cc37c.tgz: 12 visitors, wishlists, links, merges of all kinds,
// and five events that wait for ClickHouse) is taken over by this version. a1cc37c.json has what that version answered
// right before it was stopped.

import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { putUnderLoad } from '../cli/shop-under-load.js';
import { apiKey, client, sql, started } from '../cli/started.js';
import { tempDir, until } from '../cli/wishmeter.js';

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly answer: { readonly items?: readonly object[] };
}

const fixture = (name: string) => fileURLToPath(new URL(`../../../test/upgrade/${name}`, import.meta.url));
const asked: readonly Asked[] = JSON.parse(await readFile(fixture('a1cc37c.json'), 'utf8'));

/** Origin, type, and how many were acknowledged by that version. */
const EVENTS = [
  ['event', 'add', 12],
  ['event', 'remove', 5],
  ['item', 'add', 18],
  ['item', 'moveToCart', 1],
  ['purchase', 'autoRemoveAfterPurchase', 1],
  ['share', 'share', 2],
].map((row) => row.join('\t'));

/** What items have since then. */
const NEWER = { currencyCode: null, countryCode: null, properties: null };

/** What that `start` was given: it is fixed with the first one. */
const SETTINGS = { BUCKETS: '1000' };

t.test('a data folder of a1cc37c', async (t) => {
  const dir = await tempDir(t);
  await promisify(execFile)('tar', ['-xzf', fixture('a1cc37c.tgz'), '-C', dir]);
  const first = await started(t, dir, SETTINGS);
  const key = await apiKey(dir);
  const answersAreThose = async (t: Test, url: string) => {
    const shop = client(url, key);
    for (const { method, path, body, answer } of asked) {
      const items = answer.items?.map((item) => ({ ...item, ...NEWER }));
      const now = { ...answer, ...(items ? { items } : {}) };
      t.same(await shop.call(method, path, body), { status: 200, body: now }, `${method} ${path}`);
    }
  };

  await t.test('every count, item, link and setting is as it was', (t) => answersAreThose(t, first.url));

  await t.test('every event is there, those too that ClickHouse had not got yet', async (t) => {
    const query = 'SELECT origin, type, count() FROM events GROUP BY origin, type ORDER BY origin, type';
    const told = await until('all events are flushed', async () => {
      const rows = (await sql(first.clickhouseUrl, query)).split('\n');
      return rows.reduce((sum, row) => sum + Number(row.split('\t')[2]), 0) >= 39 && rows;
    });
    t.same(told, EVENTS);
  });

  await t.test('under load no request fails, and nothing that was there changes', async (t) => {
    const load = putUnderLoad(Number(new URL(first.url).port), 8);
    await answersAreThose(t, first.url);
    t.ok((await load.expectExact(t)) > 0);
  });

  await t.test('a second start has it, too', async (t) => {
    t.match(await first.stop(), { code: 0, stderr: '' });
    await answersAreThose(t, (await started(t, dir, SETTINGS)).url);
  });
});
