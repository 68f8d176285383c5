// Deletes the rows of erasures. One mutation per table covers many profiles, since it rewrites all affected parts.
// ClickHouse keeps the text of mutations, which must not name an identity: rows that name one are deleted by event id.

import type { ClickHouseClient } from '@clickhouse/client';
import { EVERY_PROFILE } from '../identity-rules.js';
import { select } from './client.js';
import { localTable, onCluster } from './cluster.js';
import {
  customerParams,
  type Erasures,
  futureFrom,
  IS_OF_ORDER,
  isCustomerKey,
  isErasedRow,
  NAMES_CUSTOMER,
  type OwnedRow,
  type Until,
  untilOf,
} from './erased-rows.js';

export const VISITOR_TABLES: readonly {
  readonly name: string;
  readonly profile: string;
  /** `profile` is the sipHash64 of the profile id. */
  readonly isHash?: boolean;
  readonly time: string;
  readonly clock: keyof Until;
}[] = [
  { name: 'events_stored', profile: 'profile_id', time: 'occurred_at', clock: 'server' },
  { name: 'visits_stored', profile: 'profile_id', time: 'occurred_at', clock: 'redis' },
  { name: 'profile_merges_stored', profile: 'old_id', time: 'merged_at', clock: 'server' },
  { name: 'steps_stored', profile: 'visitor', isHash: true, time: 'occurred_at', clock: 'server' },
  { name: 'purchases_stored', profile: 'profile_id', time: 'taken_at', clock: 'server' },
];

/** At 90 bytes per profile, a statement stays below max_query_size (256 KiB). */
const PROFILES_PER_STATEMENT = 2_000;
/** So many names take 32 KB as parameters, below http_max_field_value_size (128 KiB). */
const NAMES_PER_STATEMENT = 500;
/** An event takes 40 bytes of the statement. */
const EVENTS_PER_STATEMENT = 5_000;

/** Resolves when no query sees the rows and no active part has them. */
export async function eraseRows(client: ClickHouseClient, erased: Erasures, cluster = ''): Promise<void> {
  const erase: Erase = async (table, condition) => {
    await client.command({
      query: `ALTER TABLE ${localTable(table, cluster)}${onCluster(cluster)} DELETE WHERE ${condition}`,
      // The value 2 waits for all replicas.
      clickhouse_settings: { mutations_sync: cluster === '' ? '1' : '2' },
    });
  };
  const all = erased.get(EVERY_PROFILE);
  if (all !== undefined)
    for (const { name, time, clock } of VISITOR_TABLES)
      await erase(
        name,
        `${inMs(time)} <= ${Math.floor(untilOf(all)[clock])} OR ${inMs(time)} > ${futureFrom()}`,
      );
  const keys = [...erased.keys()].filter((key) => key !== EVERY_PROFILE);
  const profiles = keys.filter((key) => !isCustomerKey(key));
  for (let i = 0; i < profiles.length; i += PROFILES_PER_STATEMENT)
    await eraseProfiles(client, erase, erased, profiles.slice(i, i + PROFILES_PER_STATEMENT));
  const names = keys.filter(isCustomerKey);
  for (let i = 0; i < names.length; i += NAMES_PER_STATEMENT)
    await eraseOrders(client, erase, erased, names.slice(i, i + NAMES_PER_STATEMENT));
  await forgetMutations(client, cluster);
}

type Erase = (table: string, condition: string) => Promise<void>;

async function eraseProfiles(
  client: ClickHouseClient,
  erase: Erase,
  erased: Erasures,
  profiles: readonly string[],
): Promise<void> {
  const texts = profiles.map(literal);
  const hashes = await hashesOf(client, texts);
  for (const { name, profile, isHash = false, time, clock } of VISITOR_TABLES) {
    const ids = (isHash ? hashes : texts).join(',');
    const untils = profiles.map((id) => Math.floor(untilOf(erased.get(id) as string)[clock])).join(',');
    await erase(
      name,
      `${profile} IN (${ids}) AND (${inMs(time)} > ${futureFrom()} OR
        ${inMs(time)} <= transform(${profile}, [${ids}], [${untils}], toInt64(-1)))`,
    );
  }
}

/** Erases orders of customers that are recorded under other profiles. */
async function eraseOrders(
  client: ClickHouseClient,
  erase: Erase,
  erased: Erasures,
  names: readonly string[],
): Promise<void> {
  const query = `SELECT DISTINCT toString(event_id) AS id, toString(sipHash64(event_id)) AS hash,
      toInt64(toUnixTimestamp64Milli(occurred_at)) AS at, profile_id, customer_id, origin
    FROM events_stored WHERE ${IS_OF_ORDER} AND ${NAMES_CUSTOMER}`;
  const rows = await select<OwnedRow & { id: string; hash: string; at: string }>(client, query, {
    query_params: customerParams(names),
  });
  const events = rows.filter((row) => isErasedRow(row, Number(row.at), 'server', erased));
  for (let i = 0; i < events.length; i += EVENTS_PER_STATEMENT) {
    const some = events.slice(i, i + EVENTS_PER_STATEMENT);
    // events_stored comes last: after a crash the events are found again.
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

/** Hashes the texts once. The mutation would do it for each part. */
async function hashesOf(client: ClickHouseClient, texts: readonly string[]): Promise<string[]> {
  const query = `SELECT arrayMap(id -> toString(sipHash64(id)), [${texts.join(',')}]) AS hashes`;
  return (await select<{ hashes: string[] }>(client, query))[0]?.hashes ?? [];
}

/**
 * ClickHouse keeps the texts of finished mutations, with profile ids. Best effort: the grant may be missing, and the
 * ids no longer identify anyone.
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
