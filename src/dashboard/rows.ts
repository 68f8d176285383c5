// Asks ClickHouse for the rows of a statement. What it was asked for and what is under way ends with the signal: a ClickHouse that
// hangs in the middle of its answer holds no request.

import type { ClickHouseClient } from '@clickhouse/client';

export interface Rows {
  readonly names: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

/** @throws ClickHouseError where it refused; anything else where it does not answer, or the signal came */
export async function readRows(
  clickhouse: ClickHouseClient,
  query: string,
  signal: AbortSignal,
): Promise<Rows> {
  const answer = await clickhouse.query({
    query,
    format: 'JSONCompactEachRowWithNames',
    abort_signal: signal,
  });
  // The client looks at the signal up to the head of the answer.
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
