// `wishmeter report`: the last weeks on one page, as Markdown or HTML.

import { createClickHouse } from '../clickhouse/client.js';
import { resolveSettings } from '../clickhouse/kept-settings.js';
import { clickHouseStartupError } from '../clickhouse/unanswered.js';
import { lastWeeks, readReport } from '../extras/dashboard/report/figures.js';
import { asHtml, asMarkdown } from '../extras/dashboard/report/text.js';
import { productUrlOf } from '../extras/shop-links.js';
import { UsageError } from './command-line.js';
import { analystClickHouse } from './embedded-databases.js';
import type { Program } from './program.js';

const FORMATS = { markdown: asMarkdown, html: asHtml } as const;
const MAX_WEEKS = 52;

export async function report({ options, config, stdout }: Program<'report'>): Promise<number> {
  const { weeks = '1', format = 'markdown' } = options;
  if (!/^[1-9]\d?$/.test(weeks) || Number(weeks) > MAX_WEEKS)
    throw new UsageError(`--weeks is a number from 1 to ${MAX_WEEKS}.`);
  if (!Object.hasOwn(FORMATS, format)) throw new UsageError('--format is markdown or html.');
  const { CLICKHOUSE_DATABASE: database, SHOP_TIMEZONE } = config;
  const clickhouse = createClickHouse(analystClickHouse(config).href, database);
  try {
    const given = { SHOP_TIMEZONE, VISIT_RETENTION_DAYS: undefined, CLICKHOUSE_CLUSTER: undefined };
    const { SHOP_TIMEZONE: timeZone } = (await resolveSettings(clickhouse, database, given)).settings;
    const read = await readReport(clickhouse, lastWeeks(Number(weeks), timeZone, Date.now()), timeZone);
    const name = config.SHOP_NAME || new URL(config.SHOP_URL).host;
    const shop = { name, productUrl: productUrlOf(config) };
    stdout.write(FORMATS[format as keyof typeof FORMATS](read, shop));
    return 0;
  } catch (error) {
    throw clickHouseStartupError(error, 'ClickHouse refuses the report');
  } finally {
    await clickhouse.close();
  }
}
