// A ClickHouse for the tests of one file, and databases in it. Emptying a database takes a tenth of the time of creating one.

import { statementsOf } from '../../src/clickhouse/cluster.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { loadViews } from '../../src/clickhouse/views.js';
import { lineOf } from '../flush/fixtures.js';
import { connectToClickHouse, emptyDatabase, select, startTestClickHouse } from '../harness/clickhouse.js';
import type { Scope } from '../harness/redis.js';

export const never = new AbortController().signal;

export const SHARED = 'shop';

/** @param ready how many databases there are for `migrated` */
export async function startDatabases(t: Scope, ready = 0) {
  const prepared = Array.from({ length: ready }, (_, i) => `db${i + 1}`);
  const server = await startTestClickHouse(t, { databases: [SHARED, ...prepared] });
  const client = connectToClickHouse(t, server.url);
  const own = connectToClickHouse(t, server.url, SHARED);
  let databases = 0;
  let isUsed = false;
  const insert = (...lines: string[]) => insertEvents(own, Buffer.from(lines.join('')), never);
  return {
    url: server.url,
    client,
    own,
    insert,
    freshDatabase: () => `empty${++databases}`,
    ask: <T>(query: string, by = own) => select<T>(by, query),
    /** The rows of an answer, each a text with a space between its values. */
    async lines(query: string): Promise<string[]> {
      const answer = await own.query({ query, format: 'TabSeparatedRaw' });
      return (await answer.text())
        .split('\n')
        .slice(0, -1)
        .map((line) => line.replaceAll('\t', ' '));
    },
    /**
     * Creates these views with days of this zone, until the end of `t`. Creating all would take ten times as
     * long.
     */
    async inTimeZone(t: Scope, timeZone: string, views: RegExp) {
      const put = async (zone: string) => {
        for (const { sql } of loadViews().filter(({ name }) => views.test(name)))
          for (const query of statementsOf(sql, SHARED, '', zone)) await own.command({ query });
      };
      await put(timeZone);
      t.teardown(() => put('UTC'));
    },
    async emptied(...rows: object[]) {
      if (isUsed) await emptyDatabase(client, SHARED);
      isUsed = true;
      if (rows.length > 0) await insert(...rows.map(lineOf));
    },
    migrated(t: Scope) {
      const database = prepared.shift();
      if (database === undefined) throw new Error(`${ready} databases are too few`);
      return { database, own: connectToClickHouse(t, server.url, database) };
    },
  };
}
