import {
  type ClickHouseClient,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
  type QueryParams,
} from '@clickhouse/client';

/** Time for a request, long enough to insert INSERT_BYTES. */
export const REQUEST_TIMEOUT_MS = 60_000;

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
