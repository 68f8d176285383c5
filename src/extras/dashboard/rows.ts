// Reads the rows of a statement. The signal also ends an answer that has begun, so a ClickHouse that hangs holds no request.

import type { ClickHouseClient } from '@clickhouse/client';

export interface Rows {
  readonly names: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

/**
 * @param parameters of the statement, by name
 * @throws ClickHouseError if ClickHouse refuses; another error if it does not answer, or the signal aborts
 */
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
  // The client ignores the signal after the head of the answer.
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
