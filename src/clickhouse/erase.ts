// Deletes the rows that erasures cover. One mutation per table covers many profiles, because a mutation rewrites all affected
// parts. Rows of another profile that name an erased customer or session are looked up first and deleted by event id:
// ClickHouse keeps the text of mutations, which must not contain customer or session ids.

import type { ClickHouseClient } from '@clickhouse/client';
import { EVERY_PROFILE } from '../identity-rules.js';
import { localTable, onCluster } from './cluster.js';
import {
  type ErasedUntil,
  futureFrom,
  isErasedRow,
  isIdentityName,
  NAMES_IDENTITY,
  namedParams,
  type OwnedRow,
  type Until,
} from './erased-rows.js';

/** Tables with rows of visitors. */
export const VISITOR_TABLES: readonly {
  readonly name: string;
  /** Column of the row's owner. */
  readonly profile: string;
  /** `profile` has sipHash64 of the profile id. */
  readonly isHash?: boolean;
  readonly time: string;
  /** The clock of `time`. */
  readonly clock: keyof Until;
}[] = [
  { name: 'events_stored', profile: 'profile_id', time: 'occurred_at', clock: 'server' },
  { name: 'visits_stored', profile: 'profile_id', time: 'occurred_at', clock: 'redis' },
  { name: 'profile_merges_stored', profile: 'old_id', time: 'merged_at', clock: 'server' },
  { name: 'steps_stored', profile: 'visitor', isHash: true, time: 'occurred_at', clock: 'server' },
  { name: 'purchases_stored', profile: 'profile_id', time: 'taken_at', clock: 'server' },
];

/** Profiles of one mutation, each 90 bytes of query: below ClickHouse's default max_query_size of 256 KiB. */
const PROFILES_AT_ONCE = 2_000;
/** Identities of one query: 32 KB of parameters, below ClickHouse's default http_max_field_value_size of 128 KiB. */
const NAMES_AT_ONCE = 500;
/** Events of one mutation: 40 bytes of query each. */
const EVENTS_AT_ONCE = 5_000;

/**
 * Resolves when no query and no active part has the rows.
 * @param client with the database of the tables
 * @param cluster name, empty for one server
 * @throws ClickHouse's or the connection's error
 */
export async function eraseRows(client: ClickHouseClient, erased: ErasedUntil, cluster = ''): Promise<void> {
  const erase: Erase = async (table, condition) => {
    await client.command({
      query: `ALTER TABLE ${localTable(table, cluster)}${onCluster(cluster)} DELETE WHERE ${condition}`,
      // 2 waits for all replicas.
      clickhouse_settings: { mutations_sync: cluster === '' ? '1' : '2' },
    });
  };
  const all = erased.get(EVERY_PROFILE);
  if (all !== undefined)
    for (const { name, time, clock } of VISITOR_TABLES)
      await erase(
        name,
        `${inMs(time)} <= ${Math.floor(all.until[clock])} OR ${inMs(time)} > ${futureFrom()}`,
      );
  const keys = [...erased.keys()].filter((key) => key !== EVERY_PROFILE);
  const profiles = keys.filter((key) => !isIdentityName(key));
  for (let i = 0; i < profiles.length; i += PROFILES_AT_ONCE)
    await eraseProfiles(client, erase, erased, profiles.slice(i, i + PROFILES_AT_ONCE));
  const names = keys.filter(isIdentityName);
  for (let i = 0; i < names.length; i += NAMES_AT_ONCE)
    await eraseNaming(client, erase, erased, names.slice(i, i + NAMES_AT_ONCE));
  await forgetMutations(client, cluster);
}

type Erase = (table: string, condition: string) => Promise<void>;

async function eraseProfiles(
  client: ClickHouseClient,
  erase: Erase,
  erased: ErasedUntil,
  profiles: readonly string[],
): Promise<void> {
  const texts = profiles.map(literal);
  const hashes = await hashesOf(client, texts);
  for (const { name, profile, isHash = false, time, clock } of VISITOR_TABLES) {
    const ids = (isHash ? hashes : texts).join(',');
    const untils = profiles.map((id) => Math.floor(erased.get(id)?.until[clock] ?? 0)).join(',');
    await erase(
      name,
      `${profile} IN (${ids}) AND (${inMs(time)} > ${futureFrom()} OR
        ${inMs(time)} <= transform(${profile}, [${ids}], [${untils}], toInt64(-1)))`,
    );
  }
}

/** Rows of other profiles that name an identity: an order names customer and session, and a session may change its customer. */
async function eraseNaming(
  client: ClickHouseClient,
  erase: Erase,
  erased: ErasedUntil,
  names: readonly string[],
): Promise<void> {
  const answer = await client.query({
    query: `SELECT DISTINCT toString(event_id) AS id, toString(sipHash64(event_id)) AS hash,
        toInt64(toUnixTimestamp64Milli(occurred_at)) AS at, profile_id, customer_id, session_id
      FROM events_stored WHERE ${NAMES_IDENTITY}`,
    query_params: namedParams(names),
    format: 'JSONEachRow',
  });
  const rows = await answer.json<OwnedRow & { id: string; hash: string; at: string }>();
  const events = rows.filter((row) => isErasedRow(row, Number(row.at), 'server', erased));
  for (let i = 0; i < events.length; i += EVENTS_AT_ONCE) {
    const some = events.slice(i, i + EVENTS_AT_ONCE);
    // events_stored last: after a crash the events are found again.
    await erase('steps_stored', `event IN (${some.map(({ hash }) => hash).join(',')})`);
    const ids = some.map(({ id }) => literal(id)).join(',');
    await erase('purchases_stored', `event_id IN (${ids})`);
    await erase('events_stored', `event_id IN (${ids})`);
  }
}

function inMs(column: string): string {
  return `toUnixTimestamp64Milli(${column})`;
}

function literal(text: string): string {
  return `'${text.replaceAll(/['\\]/g, '\\$&').replaceAll('\0', '\\0')}'`;
}

/**
 * Computes the hashes before the mutation: ClickHouse evaluates a mutation for each part, and thousands of function calls
 * take a second each time. @param texts SQL literals
 */
async function hashesOf(client: ClickHouseClient, texts: readonly string[]): Promise<string[]> {
  const query = `SELECT arrayMap(id -> toString(sipHash64(id)), [${texts.join(',')}]) AS hashes`;
  const answer = await client.query({ query, format: 'JSONEachRow' });
  return (await answer.json<{ hashes: string[] }>())[0]?.hashes ?? [];
}

/**
 * ClickHouse keeps the texts of a hundred finished mutations per table in files, and they contain profile ids. Best effort:
 * the user may lack the grant, and the remaining ids are random and lead nowhere.
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
