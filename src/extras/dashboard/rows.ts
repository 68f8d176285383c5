// Reads a statement's rows.

import type { ClickHouseClient } from '@clickhouse/client';

export interface Rows {
  readonly names: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

/** @throws ClickHouseError if ClickHouse refuses the query, another error if it doesn't answer or the signal aborts */
export async function readRows(
  clickhouse: ClickHouseClient,
  query: string,
  parameters: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Rows> {
  const answer = await clickhouse.query({
    query,
    query_params: parameters,
    format: 'JSONCompactEachRowWithNames',
    abort_signal: signal,
  });
  // ClickHouse's client ignores the signal once the answer has begun.
  const close = () => answer.close();
  if (signal.aborted) close();
  signal.addEventListener('abort', close);
  try {
    const [names = [], ...rows] = await answer.json<unknown[]>();
    return { names: names as string[], rows };
  } finally {
    signal.removeEventListener('abort', close);
  }
}
