// Records which Redis fills a database: a Redis that lost its data draws a new salt.

import { createHash } from 'node:crypto';
import type { ClickHouseClient } from '@clickhouse/client';
import { select } from './client.js';

/** Identifies the Redis without revealing its salt. */
export function fingerprintOf(salt: string): string {
  return createHash('sha256').update(`wishmeter deployment ${salt}`).digest('hex').slice(0, 32);
}

export async function knownDeployment(
  client: ClickHouseClient,
  keyPrefix: string,
): Promise<string | undefined> {
  const query = `SELECT fingerprint FROM deployment WHERE key_prefix = {prefix: String}
    ORDER BY recorded_at DESC LIMIT 1`;
  const [row] = await select<{ fingerprint: string }>(client, query, { query_params: { prefix: keyPrefix } });
  return row?.fingerprint;
}

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
