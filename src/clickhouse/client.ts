import {
  type ClickHouseClient,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
} from '@clickhouse/client';

/** For one request, an insert of INSERT_BYTES included. */
const REQUEST_TIMEOUT_MS = 60_000;

/**
 * Connects at its first request.
 * @param url `http://user:password@host:8123`
 * @param database must exist
 * @param settings of each statement
 */
export function createClickHouse(
  url: string,
  database?: string,
  settings: ClickHouseSettings = {},
): ClickHouseClient {
  // In a local network compression costs more than it saves; https suggests a remote server.
  const remote = new URL(url).protocol === 'https:';
  return createClient({
    url,
    ...(database === undefined ? {} : { database }),
    application: 'wishmeter',
    clickhouse_settings: settings,
    request_timeout: REQUEST_TIMEOUT_MS,
    compression: { request: remote, response: remote },
    keep_alive: { enabled: true },
    // Callers log errors.
    log: { level: ClickHouseLogLevel.OFF },
  });
}
