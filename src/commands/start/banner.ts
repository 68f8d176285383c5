// The text that a terminal shows when `start` is ready.

import { resolve } from 'node:path';
import { SETTINGS } from '../../config.js';

const { CLICKHOUSE_PORT, DATA_DIR } = SETTINGS;

export interface BannerFacts {
  readonly version: string;
  readonly afterMs: number;
  readonly url: string;
  readonly clickhouseUrl: string;
  readonly dashboardUrl: string;
  readonly dashboardToken: string;
  readonly clickhousePort: number | undefined;
  readonly database: string;
  readonly folder: string;
  readonly key: string | undefined;
}

export function banner(facts: BannerFacts): string {
  const { version, afterMs, url, clickhouseUrl, clickhousePort, database, folder, key } = facts;
  const json = "-H 'content-type: application/json'";
  const visit = '{"identity":{"sessionId":"s-1","device":"desktop"},"productHandle":"red-shoe"}';
  const event =
    '{"identity":{"sessionId":"s-1","device":"desktop"},"type":"add","payload":{"productId":"1001","source":"pdp"}}';
  // `sql` finds the service by DATA_DIR, or by the port if the folder is the default. Defaults are left out.
  const ports = [undefined, Number(CLICKHOUSE_PORT.fallback)];
  const port = ports.includes(clickhousePort) ? '' : `CLICKHOUSE_PORT=${clickhousePort} `;
  const where = folder === DATA_DIR.fallback ? port : `DATA_DIR=${quoted(resolve(folder))} `;
  return `
wishmeter ${version} is ready (${(afterMs / 1_000).toFixed(1)} s)

  HTTP        ${url}
  ClickHouse  ${clickhouseUrl}, database ${database}
  Dashboard   ${facts.dashboardUrl}/#token=${facts.dashboardToken}
  API key     ${key ?? 'as in API_KEYS'}

Count a visit, read the count, post an event:

  curl ${url}/product/visit ${json} -d '${visit}'
  curl '${url}/product/visit?sessionId=s-1&productHandle=red-shoe'
  curl ${url}/event -H 'x-api-key: ${key ?? '<one of API_KEYS>'}' ${json} -d '${event}'

Ask ClickHouse, two seconds later:

  ${where}npx wishmeter sql "SELECT occurred_at, type, product_id FROM events"

Ctrl-C stops everything; no acknowledged data is lost.
`;
}

function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
