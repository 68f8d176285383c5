// The events that are in Redis, as the flusher will find them.

import { createKeys } from '../../src/redis/keys.js';
import type { TestApp } from './app.js';
import { dumpRedis } from './dump.js';

export type Row = Readonly<Record<string, unknown>>;

/** What `XRANGE` has of an app's shard: the rows, parsed, in order; the entries' counts must agree. */
export async function rowsOf(
  redis: { readonly urls: readonly string[] },
  app: Pick<TestApp, 'prefix'>,
  shard = 0,
): Promise<Row[]> {
  const dump = await dumpRedis(redis, app.prefix);
  const entries = (dump[createKeys(app.prefix).events(shard)] ?? []) as [string, string[]][];
  return entries.flatMap(([, [n, rows, d, lines]]) => {
    if (n !== 'n' || d !== 'd' || !lines?.endsWith('\n')) throw new Error(`not an entry: ${n} ${d}`);
    const parsed = lines
      .slice(0, -1)
      .split('\n')
      .map((line) => JSON.parse(line) as Row);
    if (parsed.length !== Number(rows)) throw new Error(`${rows} rows announced, ${parsed.length} there`);
    return parsed;
  });
}

/** The events of one visitor: those that name this session or customer. Merges are no events. */
export async function eventsOf(
  redis: { readonly urls: readonly string[] },
  app: Pick<TestApp, 'prefix'>,
  who: { readonly sessionId?: string; readonly customerId?: string },
): Promise<Row[]> {
  const rows = await rowsOf(redis, app);
  return rows.filter(
    (row) =>
      row['customer_id'] === who.customerId &&
      row['session_id'] === who.sessionId &&
      row['origin'] !== 'merge',
  );
}

/** Only what analysts read of an event. */
export function gist({ type, origin, payload }: Row): object {
  return { type, origin, payload: JSON.parse(String(payload)) };
}
