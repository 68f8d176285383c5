// What a terminal shows when `start` is ready: where everything is, and lines to try it with.

import { SETTINGS } from '../../config.js';

const DEFAULT_PORT = Number(SETTINGS.CLICKHOUSE_PORT.fallback);

export interface BannerFacts {
  readonly version: string;
  readonly afterMs: number;
  /** With the base path, without a slash at its end. */
  readonly url: string;
  /** Without credentials. */
  readonly clickhouseUrl: string;
  /** Without its token. */
  readonly dashboardUrl: string;
  readonly dashboardToken: string;
  /** Of the embedded ClickHouse. */
  readonly clickhousePort: number | undefined;
  readonly database: string;
  /** The key that was made here; undefined where API_KEYS has some, which are not ours to show. */
  readonly key: string | undefined;
}

export function banner(facts: BannerFacts): string {
  const { version, afterMs, url, clickhouseUrl, clickhousePort, database, key } = facts;
  const json = "-H 'content-type: application/json'";
  const visit = '{"identity":{"sessionId":"s-1","device":"desktop"},"productHandle":"red-shoe"}';
  const event =
    '{"identity":{"sessionId":"s-1","device":"desktop"},"type":"add","payload":{"productId":"1001","source":"pdp"}}';
  // For a shell whose DATA_DIR is another, where `sql` finds no port; it goes by CLICKHOUSE_PORT or its default there.
  const where =
    clickhousePort === undefined || clickhousePort === DEFAULT_PORT
      ? ''
      : `CLICKHOUSE_PORT=${clickhousePort} `;
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

Ctrl-C stops everything; what was acknowledged stays.
`;
}
