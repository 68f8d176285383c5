// Deletes rows of erased profiles: one mutation a table for all of them. It rewrites the parts that have such rows, so
// it is not done for each visitor on its own.

import type { ClickHouseClient } from '@clickhouse/client';
import { EVERY_PROFILE } from '../identity-rules.js';
import { localTable, onCluster } from './cluster.js';

/** Tables with rows of visitors, and whose clock `time` is of. */
export const VISITOR_TABLES: readonly {
  readonly name: string;
  /** The column that says whose a row is. */
  readonly profile: string;
  /** It has sipHash64 of the profile id, and not the id. */
  readonly isHash?: boolean;
  readonly time: string;
  readonly clock: 'server' | 'redis';
}[] = [
  { name: 'events_stored', profile: 'profile_id', time: 'occurred_at', clock: 'server' },
  { name: 'visits_stored', profile: 'profile_id', time: 'occurred_at', clock: 'redis' },
  { name: 'profile_merges_stored', profile: 'old_id', time: 'merged_at', clock: 'server' },
  { name: 'steps_stored', profile: 'visitor', isHash: true, time: 'occurred_at', clock: 'server' },
  { name: 'visitor_merges_stored', profile: 'old', isHash: true, time: 'merged_at', clock: 'server' },
];

export interface ErasedProfile {
  /** Or EVERY_PROFILE. */
  readonly profileId: string;
  /** Rows up to then go, milliseconds since 1970. */
  readonly until: Readonly<Record<'server' | 'redis', number>>;
}

/** Profiles of one mutation: 90 bytes of query each, below ClickHouse's default max_query_size. */
const AT_ONCE = 2_000;
/** Ids are made here (src/identity/profile-id.ts); anything else is not put into a query. */
const PROFILE_ID = /^[0-9a-z]+\.[A-Za-z0-9_-]+$/;

/**
 * Resolves when the rows are gone from what ClickHouse answers with, and from its current parts.
 * @param client with the database of the tables
 * @param cluster name, empty for one server
 * @throws ClickHouse's or the connection's error
 */
export async function eraseRows(
  client: ClickHouseClient,
  profiles: readonly ErasedProfile[],
  cluster = '',
): Promise<void> {
  const erase = async (table: string, condition: string) => {
    await client.command({
      query: `ALTER TABLE ${localTable(table, cluster)}${onCluster(cluster)} DELETE WHERE ${condition}`,
      // 2: on all replicas.
      clickhouse_settings: { mutations_sync: cluster === '' ? '1' : '2' },
    });
  };
  for (const { until } of profiles.filter(({ profileId }) => profileId === EVERY_PROFILE))
    for (const { name, time, clock } of VISITOR_TABLES)
      await erase(name, `toUnixTimestamp64Milli(${time}) <= ${Math.floor(until[clock])}`);
  const known = profiles.filter(({ profileId }) => PROFILE_ID.test(profileId));
  for (let i = 0; i < known.length; i += AT_ONCE) {
    const some = known.slice(i, i + AT_ONCE);
    const texts = some.map(({ profileId }) => `'${profileId}'`);
    const hashes = await hashesOf(client, texts);
    for (const { name, profile, isHash = false, time, clock } of VISITOR_TABLES) {
      const ids = (isHash ? hashes : texts).join(',');
      const untils = some.map(({ until }) => Math.floor(until[clock])).join(',');
      await erase(
        name,
        `${profile} IN (${ids}) AND
          toUnixTimestamp64Milli(${time}) <= transform(${profile}, [${ids}], [${untils}], toInt64(-1))`,
      );
    }
  }
  await forgetMutations(client, cluster);
}

/**
 * Digests as literals: a mutation is worked out for each part anew, and thousands of function calls in it take ClickHouse a
 * second for each. @param texts as literals of SQL
 */
async function hashesOf(client: ClickHouseClient, texts: readonly string[]): Promise<string[]> {
  const query = `SELECT arrayMap(id -> toString(sipHash64(id)), [${texts.join(',')}]) AS hashes`;
  const answer = await client.query({ query, format: 'JSONEachRow' });
  return (await answer.json<{ hashes: string[] }>())[0]?.hashes ?? [];
}

/**
 * ClickHouse keeps the text of finished mutations, a hundred of each table, in files beside the parts, and the text names
 * the profiles. Best effort: the user may not be allowed to, and what is left then are random ids that lead nowhere.
 */
async function forgetMutations(client: ClickHouseClient, cluster: string): Promise<void> {
  const tables = VISITOR_TABLES.map(({ name }) => `'${localTable(name, cluster)}'`).join(',');
  await client
    .command({
      query: `KILL MUTATION${onCluster(cluster)} WHERE database = currentDatabase() AND table IN (${tables}) AND is_done
        AND match(command, '^[(]?DELETE WHERE') SYNC`,
    })
    .catch(() => {});
}
