// The demo's proof can fail, a small afternoon has no wrong answer, and its history is marked as such and
// fills the dashboard.

import t from 'tap';
import { runAfternoon } from '../../bench/demo/afternoon.js';
import { CATALOGUE, type Product } from '../../bench/demo/catalogue.js';
import { Check } from '../../bench/demo/check.js';
import { Belongings, Diary } from '../../bench/demo/diary.js';
import { DAYS, makeHistory } from '../../bench/demo/history.js';
import { createHttpShop } from '../../bench/demo/http-shop.js';
import { compareEvents, type StoredEvents } from '../../bench/demo/proof.js';
import { startService } from '../../bench/demo/service.js';
import { statementOf } from '../../src/extras/dashboard/panel.js';
import { PANELS } from '../../src/extras/dashboard/panels.js';
import { KEY, startApp } from '../harness/app.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';

const VISITORS = 12;

const product = CATALOGUE[0] as Product;
const wish = { product, variantId: product.variantId, quantity: 1, currency: 'EUR' } as const;
const who = { sessionId: 's', customerId: null, device: 'mobile', locale: 'en' } as const;

function diaryOf(number: number): Diary {
  const diary = new Diary(number);
  diary.left = new Belongings();
  return diary;
}

t.test('the demo reports an event that is missing, doubled, changed or misplaced', async (t) => {
  const diary = diaryOf(7);
  diary.note('add', wish);
  diary.note('share');
  const everyone = [{ diary, profileId: 'p7' }];
  const [add, share] = ['add 7000000001:8000000001', 'share :'].map((event) => ({
    ...{ visitor: 7, event, profile_id: 'p7', times: 1 },
  })) as [StoredEvents, StoredEvents];

  t.same(compareEvents(everyone, [add, share]), []);
  t.same(compareEvents(everyone, [add]), ['visitor 7: share :: 0 times, not 1']);
  for (const doubled of [[{ ...add, times: 2 }], [add, add]])
    t.match(compareEvents(everyone, [...doubled, share]), [/^visitor 7: add .*: 2 times, not 1$/]);
  t.equal(compareEvents(everyone, [{ ...add, event: 'add 7000000001:' }, share]).length, 2);
  t.match(compareEvents(everyone, [add, { ...share, profile_id: 'p8' }]), [
    /^visitor 7: share .*p8, not p7$/,
  ]);
  t.match(compareEvents(everyone, [add, share, { ...add, visitor: 8 }]), [/^visitor 8: add .* never/]);
});

t.test(
  'the demo sends a refused request again when Retry-After says, and does not call it a fault',
  async (t) => {
    const redis = await startTestRedis(t);
    const app = await startApp(t, redis, { env: { RATE_LIMIT: '10' } });
    const address = { url: `http://127.0.0.1:${app.port}`, key: KEY };
    const { shop, book } = createHttpShop(address);
    const counts = await Promise.all(Array.from({ length: 15 }, () => shop.visit(who, product)));
    t.same(
      counts.toSorted((a, b) => a - b),
      Array.from({ length: 15 }, (_, i) => i + 1),
    );
    t.ok(book.retries > 0, `${book.retries} sent again`);
    t.same([...book.refusals], []);
  },
);

t.test('the demo reports a wrong count', async (t) => {
  const counts = new Check();
  counts.count(who, product, 2, 2);
  counts.count(who, product, 2, 3);
  t.match(counts, { checked: 2, wrong: [`s ${product.handle}: 3, not 2`] });
});

t.test('the demo on a real service', async (t) => {
  const { PATH, HOME, TMPDIR } = process.env;
  const service = await startService({ PATH, HOME, TMPDIR });
  t.teardown(() => service.stop());
  const client = connectToClickHouse(t, service.writableUrl, service.database);
  const ask = async (query: string) =>
    (await (await client.query({ query, format: 'JSONEachRow' })).json()) as Record<string, unknown>[];

  await t.test('a small afternoon of the demo has no wrong answer', async (t) => {
    const lines: string[] = [];
    const findings = await runAfternoon(
      service,
      VISITORS,
      connectToClickHouse(t, service.clickhouseUrl, service.database),
      (line) => lines.push(line),
    );
    t.match(lines.at(-1), new RegExp(`^Read again ${VISITORS}/${VISITORS} · `));
    for (const { sentence, wrong } of findings) t.same(wrong, [], sentence);
    t.equal(findings.length, 7);
  });

  await t.test(
    "the demo's history is weeks of marked rows, and the same when it is made again",
    async (t) => {
      const now = Date.UTC(2026, 2, 1, 12);
      const counts = async (what: string) => {
        const tables = ['visits', 'events', 'purchases'].map(
          (table) => `(SELECT count() FROM ${table} WHERE ${what}) AS ${table}`,
        );
        return (await ask(`SELECT ${tables.join()}`))[0];
      };
      const unmarked = () => counts("NOT startsWith(profile_id, 'demo.')");
      const marked = () => counts("startsWith(profile_id, 'demo.')");
      const afternoon = await unmarked();
      await makeHistory(client, now);
      const first = await marked();
      t.ok(Number(first?.['visits']) > 50_000, `${first?.['visits']} visits`);
      t.ok(Number(first?.['purchases']) > 300, `${first?.['purchases']} lines of orders`);
      await makeHistory(client, now);
      t.same(await marked(), first, 'nothing twice');
      t.same(await unmarked(), afternoon);
      const today = await counts("startsWith(profile_id, 'demo.') AND occurred_at >= '2026-03-01'");
      t.same(today, { visits: '0', events: '0', purchases: '0' });
      const days =
        "SELECT uniqExact(toDate(occurred_at)) AS days FROM visits WHERE startsWith(profile_id, 'demo.')";
      t.match(await ask(days), [{ days: DAYS }]);
      const devices = 'SELECT device FROM (SELECT device FROM visits UNION ALL SELECT device FROM events)';
      t.same(
        await ask(`${devices} WHERE device != '' GROUP BY device ORDER BY device`),
        [{ device: 'desktop' }, { device: 'mobile' }],
        'devices are those that the beacon sends',
      );
      const fractions = 'countIf(amount != round(amount) OR discount != round(discount))';
      t.match(
        await ask(
          `SELECT currency, ${fractions} AS cents FROM purchases GROUP BY currency ORDER BY currency`,
        ),
        [{ currency: 'EUR' }, { currency: 'JPY', cents: '0' }, { currency: 'USD' }],
      );
      for (const panel of PANELS) {
        const rows = await ask(statementOf(panel, { from: '2026-02-01', to: '2026-02-28' }));
        t.ok(rows.length > 0, panel.name);
      }
    },
  );
});
