// A ClickHouse for the tests of one file, and databases in it. Emptying a database takes a tenth of the time of creating one.

import type { ClickHouseClient } from '@clickhouse/client';
import { statementsOf } from '../../src/clickhouse/cluster.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { loadViews } from '../../src/clickhouse/views.js';
import { type EventRow, lineOf } from '../flush/fixtures.js';
import { connectToClickHouse, emptyDatabase, startTestClickHouse } from '../harness/clickhouse.js';
import type { Scope } from '../harness/redis.js';

export const never = new AbortController().signal;

/** The one that tests of a file share. */
const SHARED = 'shop';

/** @param ready how many databases there are for `migrated` */
export async function startDatabases(t: Scope, ready = 0) {
  const prepared = Array.from({ length: ready }, (_, i) => `db${i + 1}`);
  const server = await startTestClickHouse(t, { databases: [SHARED, ...prepared] });
  const client = connectToClickHouse(t, server.url);
  let databases = 0;
  let isUsed = false;
  const clientOf = (t: Scope, database: string) => connectToClickHouse(t, server.url, database);
  const filled = async (t: Scope, database: string, rows: readonly EventRow[]) => {
    const own = clientOf(t, database);
    if (rows.length > 0) await insertEvents(own, Buffer.from(rows.map(lineOf).join('')), never);
    return { database, own };
  };
  return {
    url: server.url,
    client,
    clientOf,
    /** The name of a database that does not exist. */
    freshDatabase: () => `empty${++databases}`,
    async ask<T>(query: string, by: ClickHouseClient = client): Promise<T[]> {
      return await (await by.query({ query, format: 'JSONEachRow' })).json<T>();
    },
    /** Views with days of this zone, until the end of `t`; all of them would take ten times as long. */
    async inTimeZone(t: Scope, own: ClickHouseClient, timeZone: string, views: RegExp) {
      const put = async (zone: string) => {
        for (const { sql } of loadViews().filter(({ name }) => views.test(name)))
          for (const query of statementsOf(sql, SHARED, '', zone)) await own.command({ query });
      };
      await put(timeZone);
      t.teardown(() => put('UTC'));
    },
    /** The shared database with these rows and no others, and a client on it. */
    async emptied(t: Scope, ...rows: EventRow[]) {
      if (isUsed) await emptyDatabase(client, SHARED);
      isUsed = true;
      return await filled(t, SHARED, rows);
    },
    /** A migrated database of its own, for what changes its tables. */
    async migrated(t: Scope, ...rows: EventRow[]) {
      const database = prepared.shift();
      if (database === undefined) throw new Error(`${ready} databases are too few`);
      return await filled(t, database, rows);
    },
  };
}
