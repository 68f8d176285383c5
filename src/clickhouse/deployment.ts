// Which deployment of Redis a database's events come from. A Redis that was emptied draws a new salt without
// a word, and from then on every visitor would be a new one; ClickHouse remembers that there was another.

import { createHash } from 'node:crypto';
import type { ClickHouseClient } from '@clickhouse/client';

/** What tells a deployment from another without telling its salt. */
export function fingerprintOf(salt: string): string {
  return createHash('sha256').update(`wishmeter deployment ${salt}`).digest('hex').slice(0, 32);
}

/**
 * The fingerprint that the events under this key prefix came from last; undefined where there were none yet.
 * @param client with the database that holds `deployment`
 * @throws ClickHouse's or the connection's error
 */
export async function knownDeployment(
  client: ClickHouseClient,
  keyPrefix: string,
): Promise<string | undefined> {
  const answer = await client.query({
    query: `SELECT fingerprint FROM deployment WHERE key_prefix = {prefix: String}
      ORDER BY recorded_at DESC LIMIT 1`,
    query_params: { prefix: keyPrefix },
    format: 'JSONEachRow',
  });
  const [row] = await answer.json<{ fingerprint: string }>();
  return row?.fingerprint;
}

/** Remembers where events come from, from now on. @throws ClickHouse's or the connection's error */
export async function recordDeployment(
  client: ClickHouseClient,
  keyPrefix: string,
  fingerprint: string,
): Promise<void> {
  await client.insert({
    table: 'deployment',
    values: [{ key_prefix: keyPrefix, fingerprint }],
    format: 'JSONEachRow',
  });
}
