import {
  type ClickHouseClient,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
  type QueryParams,
} from '@clickhouse/client';

/** Time for a request, long enough to insert INSERT_BYTES. */
export const REQUEST_TIMEOUT_MS = 60_000;

/** Writes money in JSON as items have it: text with two decimals. As numbers, large amounts would lose digits. */
export const MONEY_AS_TEXT = {
  output_format_json_quote_decimals: 1,
  output_format_decimal_trailing_zeros: 1,
} as const;

export function createClickHouse(
  url: string,
  database?: string,
  settings: ClickHouseSettings = {},
): ClickHouseClient {
  // In a local network, compression costs more than it saves; https suggests a remote server.
  const remote = new URL(url).protocol === 'https:';
  return createClient({
    url,
    ...(database === undefined ? {} : { database }),
    application: 'wishmeter',
    clickhouse_settings: settings,
    request_timeout: REQUEST_TIMEOUT_MS,
    compression: { request: remote, response: remote },
    keep_alive: { enabled: true },
    log: { level: ClickHouseLogLevel.OFF },
  });
}

/** Holds all rows in memory, so answers must be of bounded size. */
export async function select<Row>(
  client: ClickHouseClient,
  query: string,
  options: Pick<QueryParams, 'query_params' | 'abort_signal'> = {},
): Promise<Row[]> {
  const answer = await client.query({ query, format: 'JSONEachRow', ...options });
  return answer.json<Row>();
}
