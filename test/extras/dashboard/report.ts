// `wishmeter report`: its figures by hand from the rows of planted.ts, and texts of storefronts that stay texts.

import type { Test } from 'tap';
import { lastWeeks, type Report, readReport } from '../../../src/extras/dashboard/report/figures.js';
import { asHtml, asMarkdown } from '../../../src/extras/dashboard/report/text.js';
import { asDashboard } from '../../../src/extras/embedded/clickhouse/users.js';
import { runHere } from '../../cli/in-process.js';
import type { Fixtures } from './fixtures.js';

const SHOP = { name: 'Lamps & more', productUrl: 'https://shop.example/products/{handle}?variant={variant}' };
/** A Tuesday. */
const NOW = Date.UTC(2024, 5, 11, 12);

/** After the part that plants the rows. */
export async function weeklyReport(t: Test, { reader, clickhouseUrl }: Fixtures): Promise<void> {
  t.test('the report is of the last whole weeks of the shop, Monday to Sunday', (t) => {
    t.same(lastWeeks(1, 'UTC', NOW), { from: '2024-06-03', to: '2024-06-09' });
    t.same(lastWeeks(2, 'UTC', NOW), { from: '2024-05-27', to: '2024-06-09' });
    const [sunday, monday] = [Date.UTC(2024, 5, 9, 23, 30), Date.UTC(2024, 5, 10, 12)];
    t.same(lastWeeks(1, 'UTC', sunday), { from: '2024-05-27', to: '2024-06-02' }, 'Sunday is not over');
    t.same(lastWeeks(1, 'Europe/Berlin', sunday), lastWeeks(1, 'UTC', monday), 'it is Monday in Berlin');
    t.end();
  });

  await t.test('the report has the figures of the rows, counted by hand', async (t) => {
    const report = await readReport(reader, lastWeeks(1, 'UTC', NOW), 'UTC');
    t.same(report.before, { from: '2024-05-27', to: '2024-06-02' });
    const figures = report.figures.map(({ name, currency = '', now, before }) => [
      name,
      currency,
      now,
      before,
    ]);
    t.same(figures, [
      ['Visits', '', 0, 0],
      ['Added to a wishlist', '', 9, 2],
      ['Removed from a wishlist', '', 2, 0],
      ['Moved to the cart', '', 0, 0],
      ['Orders', '', 1, 0],
      ['Revenue', 'USD', 20, 0],
    ]);
    const gist = (list: Report['rising']) => list.map(({ title, n, change }) => [title, n, change]);
    // Ida and Ada wished for the lamp in the 7 days before.
    t.same(gist(report.mostWished), [
      ['lamp', 4, 2],
      ['vase', 4, 4],
    ]);
    t.same(gist(report.rising), [
      ['vase', 4, 4],
      ['lamp', 4, 2],
    ]);
    t.same(gist(report.backInStock), [['lamp', 3, undefined]]);
    // Of the lamp Ida, Ada, Ben, Cat and Dan; of the vase Eve, Fay and Hal.
    t.same(gist(report.neverBought), [
      ['lamp', 5, undefined],
      ['vase', 3, undefined],
    ]);
    const text = asMarkdown(report, SHOP);
    t.match(text, '# Lamps &amp; more: wishlists of 2024-06-03 to 2024-06-09');
    t.match(text, '- Added to a wishlist: **9** (▲ 350%)');
    t.match(text, '- Revenue: **$20.00** (none before)');
    t.match(text, '2. [vase](https://shop.example/products/vase): 4 visitors saved it, +4 in 7 days');
  });

  t.test('a title of a storefront is neither HTML, Markdown nor a mention', (t) => {
    const title =
      '<img src=x onerror=alert(1)> [x](https://evil.example) *bold* @everyone <!channel> {{7}}\n# big';
    const product = { title, handle: 'a)b"c', n: 1, change: 0 };
    const days = { from: '2024-06-03', to: '2024-06-09' };
    const lists = { mostWished: [product], rising: [], backInStock: [], neverBought: [] };
    const report = { ...{ days, before: days, wishDays: days, figures: [] }, ...lists };
    const page = asHtml(report, SHOP);
    t.notMatch(page, /<img|<!channel|\{\{/);
    t.match(page, 'href="https://shop.example/products/a)b%22c"');
    const text = asMarkdown(report, SHOP);
    t.notMatch(text, /<|@e|^# big|[^\\]\[x|[^\\]\*bold/m);
    t.match(text, '](https://shop.example/products/a%29b%22c): 1 visitor saved it, ±0 in 7 days');
    t.match(text, 'No product was saved by more visitors than before.');
    t.end();
  });

  await t.test('the command prints Markdown, or HTML that loads nothing', async (t) => {
    const env = {
      CLICKHOUSE_URL: asDashboard(clickhouseUrl),
      CLICKHOUSE_DATABASE: 'shop',
      SHOP_NAME: 'Lamps',
    };
    t.match(await runHere('report', [], env), { code: 0, stdout: /^# Lamps: wishlists of \d{4}-/ });
    const nameless = await runHere('report', [], { ...env, SHOP_NAME: undefined });
    t.match(nameless, { code: 0, stdout: /^# localhost:8080: wishlists of/ }, 'without settings of the shop');
    const { stdout } = await runHere('report', ['--weeks', '4', '--format', 'html'], env);
    t.match(stdout, /^<!doctype html>[\s\S]*<h1 [^>]*>Lamps: wishlists of[\s\S]*<\/html>\n$/);
    t.notMatch(stdout, /<(img|script|link)|url\(/);
  });
}
