// `make demo`: a shop's afternoon in a minute. Some 5,000 visitors through HTTP, then what analysts see of
// it, then the proof: every count and wishlist right, every acknowledged event in ClickHouse once. Exit code 1
// if not. On a terminal (or with KEEP=1) the shop then stays open, with weeks of made-up history, for its dashboard and
// for `make sql`.

import { text } from 'node:stream/consumers';
import type { ClickHouseClient } from '@clickhouse/client';
import { createClickHouse } from '../src/clickhouse/client.js';
import { runAfternoon } from './demo/afternoon.js';
import { DAYS, makeHistory } from './demo/history.js';
import type { Finding } from './demo/proof.js';
import { markAsOpen, startService } from './demo/service.js';

const VISITORS = 5_000;
/** Broken promises that are shown one by one. */
const EXAMPLES = 5;

const TABLES: readonly (readonly [title: string, query: string])[] = [
  ['Events per day and type', 'SELECT * FROM events_per_day'],
  ['Top products by adds, and their moves to cart', 'SELECT * FROM top_products LIMIT 10'],
  ['Share links by channel', 'SELECT * FROM shares_by_channel'],
  [
    'Revenue by currency',
    'SELECT currency, uniqExact(order_id) AS orders, sum(amount) AS revenue FROM purchases WHERE NOT test GROUP BY currency',
  ],
];

const out = process.stdout;

async function main(): Promise<boolean> {
  const service = await startService(process.env);
  let code = 1;
  const ended = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        resolve();
        service.stop().finally(() => process.exit(code));
      });
    }
  });
  const analyst = createClickHouse(service.clickhouseUrl, service.database);
  try {
    out.write(`${VISITORS.toLocaleString('en')} visitors come to the shop at ${service.url}\n\n`);
    const say = (line: string) => void out.write(`${line}\n`);
    const findings = await runAfternoon(service, VISITORS, analyst, say);
    await showTables(analyst);
    const isRight = report(findings);
    code = isRight ? 0 : 1;
    out.write(
      `\nAdding ${DAYS} days of history, made up in ClickHouse (its profile ids begin with demo.) …\n`,
    );
    const history = createClickHouse(service.writableUrl, service.database);
    await makeHistory(history, Date.now()).finally(() => history.close());
    if (process.env.KEEP !== '1' && !out.isTTY) {
      out.write('\nOn a terminal, or with KEEP=1, the shop stays open for its dashboard.\n');
      return isRight;
    }
    const close = await markAsOpen(service.dir);
    out.write(`
The shop stays open until Ctrl-C.

  Shop        ${service.shop}
  Dashboard   ${service.dashboard}
  ClickHouse  ${new URL(service.clickhouseUrl).origin}, database ${service.database}
  SQL         make sql Q="SELECT * FROM most_wished(from = today() - 28, to = today()) LIMIT 10"
`);
    await ended.finally(close);
    return isRight;
  } finally {
    await analyst.close();
    await service.stop();
  }
}

async function showTables(analyst: ClickHouseClient): Promise<void> {
  for (const [title, query] of TABLES) {
    const { stream } = await analyst.exec({ query: `${query} FORMAT PrettyCompactMonoBlock` });
    out.write(`\n${title}: ${query}\n${await text(stream)}`);
  }
}

function report(findings: readonly Finding[]): boolean {
  out.write('\n');
  for (const { sentence, wrong } of findings) {
    out.write(`${wrong.length === 0 ? '✔' : '✘'} ${sentence}\n`);
    for (const line of wrong.slice(0, EXAMPLES)) out.write(`    ${line}\n`);
    if (wrong.length > EXAMPLES) out.write(`    and ${wrong.length - EXAMPLES} more\n`);
  }
  return findings.every(({ wrong }) => wrong.length === 0);
}

try {
  process.exitCode = (await main()) ? 0 : 1;
} catch (error) {
  process.stderr.write(`demo: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
