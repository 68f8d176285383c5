// The one way to a ClickHouse client, for a server and for the embedded stand-in alike.

import {
  type ClickHouseClient,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
} from '@clickhouse/client';

/** Milliseconds for one request, an insert of INSERT_BYTES included. */
const REQUEST_TIMEOUT_MS = 60_000;

/**
 * A client that connects when it is first used.
 * @param url `http://user:password@host:8123`
 * @param database where unqualified names are looked up; it must exist, so `migrate` wants a client without one
 * @param settings of each statement, such as those of a cluster
 */
export function createClickHouse(
  url: string,
  database?: string,
  settings: ClickHouseSettings = {},
): ClickHouseClient {
  // Compression costs more than a local network does; https stands for a ClickHouse somewhere else.
  const remote = new URL(url).protocol === 'https:';
  return createClient({
    url,
    ...(database === undefined ? {} : { database }),
    application: 'wishmeter',
    clickhouse_settings: settings,
    request_timeout: REQUEST_TIMEOUT_MS,
    compression: { request: remote, response: remote },
    keep_alive: { enabled: true },
    // The caller logs, once, with what it was doing.
    log: { level: ClickHouseLogLevel.OFF },
  });
}
