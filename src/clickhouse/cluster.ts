// The same schema on a cluster of ClickHouse servers: the statements of migrations/ and of the views, made into those
// that a cluster wants. One text is kept for both.
//
// - A table `x` becomes `x_local`, replicated within each shard, and `x` itself is the Distributed table over it. So
//   views, inserts and questions name the same tables as on one server. Rows of one profile are on one shard: repeats
//   meet each other there, and FINAL is right.
// - Feeds (materialized views) go from local table to local table.
// - Three small tables are not sharded but the same on every server.
// - A shard remembers tokens of inserts for a week. ClickHouse's default is an hour: a flusher that was stopped overnight
//   would insert a batch twice.
//
// The servers need the macros {shard} and {replica}; see docs/operations.md.

import type { ClickHouseSettings } from '@clickhouse/client';

/** How the rows of each table are spread over the shards; undefined: they are on all servers. */
const SHARDED_BY: Readonly<Record<string, string | undefined>> = {
  schema_migrations: undefined,
  deployment: undefined,
  views_put: undefined,
  events_stored: 'sipHash64(profile_id)',
  visits_stored: 'sipHash64(profile_id)',
  profile_merges_stored: 'sipHash64(old_id)',
  steps_stored: 'visitor',
  visitor_merges_stored: 'old',
  visit_days: 'toUInt32(day)',
  visits_per_day_stored: 'sipHash64(product_handle)',
  visitors_per_day_stored: 'sipHash64(product_handle)',
  products_stored: 'sipHash64(product_id)',
};

const COMMENTS = /^(?:\s*--.*\n|\s*\n)*/;
const TABLE = /^CREATE TABLE IF NOT EXISTS (\w+)\.(\w+)/;
const VIEW = /^CREATE OR REPLACE VIEW (\w+)\.(\w+)/;
const FEED = /^CREATE MATERIALIZED VIEW IF NOT EXISTS (\w+)\.(\w+) TO \w+\.(\w+)/;
const ENGINE = /ENGINE = (Replacing|Aggregating|)MergeTree(?:\((\w+)\))?/;
const WINDOW = /\bnon_replicated_deduplication_window = (\d+)/;
const WEEK_S = 604_800;

/** The table that a mutation or a change of the schema goes to. */
export function localTable(name: string, cluster: string): string {
  return cluster === '' ? name : `${name}_local`;
}

/** ` ON CLUSTER name`, or nothing on one server. */
export function onCluster(cluster: string): string {
  return cluster === '' ? '' : ` ON CLUSTER ${cluster}`;
}

/** Settings of a connection to a cluster: an insert is acknowledged by the shards. */
export function clusterSettings(cluster: string): ClickHouseSettings {
  if (cluster === '') return {};
  return {
    distributed_foreground_insert: 1,
    // A question within a question sees all shards.
    distributed_product_mode: 'global',
    // INSERT … SELECT spreads what it inserts by the table's key; ClickHouse's default of 2 leaves it on the shard
    // that it was read on.
    parallel_distributed_insert_select: '0',
  };
}

/**
 * A statement for one server as those that do the same on a cluster.
 * @param cluster its name in the servers' `remote_servers`
 * @throws where it is of a kind, or of a table, that this file does not know
 */
export function clustered(statement: string, cluster: string): string[] {
  const sql = statement.replace(COMMENTS, '').trim();
  const on = onCluster(cluster);
  const [, database, table] = TABLE.exec(sql) ?? [];
  if (database !== undefined && table !== undefined) {
    if (!(table in SHARDED_BY)) throw new Error(`cluster.ts does not say how ${table} is sharded`);
    const key = SHARDED_BY[table];
    if (key === undefined)
      return [replicated(sql.replace(TABLE, `$&${on}`), `all/${database}/${table}`, '{shard}-{replica}')];
    const local = `CREATE TABLE IF NOT EXISTS ${database}.${table}_local${on}`;
    return [
      replicated(sql.replace(TABLE, local), `{shard}/${database}/${table}`, '{replica}'),
      `CREATE TABLE IF NOT EXISTS ${database}.${table}${on} AS ${database}.${table}_local
        ENGINE = Distributed(${cluster}, ${database}, ${table}_local, ${key})`,
    ];
  }
  if (VIEW.test(sql)) return [sql.replace(VIEW, `$&${on}`)];
  if (FEED.test(sql))
    return [
      sql
        .replace(
          FEED,
          (_, of, feed, target) =>
            `CREATE MATERIALIZED VIEW IF NOT EXISTS ${of}.${feed}${on} TO ${of}.${target}_local`,
        )
        // By its name on one server: columns are called `events_stored.price`, too.
        .replace(/\nFROM (\w+)\.(\w+)/, '\nFROM $1.$2_local AS $2'),
    ];
  if (sql.startsWith('CREATE DATABASE')) return [`${sql}${on}`];
  throw new Error(`cluster.ts does not know what this is on a cluster: ${sql.slice(0, 60)}`);
}

/** @param path in ZooKeeper or Keeper, without what is before it */
function replicated(sql: string, path: string, replica: string): string {
  if (!ENGINE.test(sql)) throw new Error(`not a table that can be replicated: ${sql.slice(0, 60)}`);
  return sql
    .replace(ENGINE, (_, kind, version) => {
      const more = version === undefined ? '' : `, ${version}`;
      return `ENGINE = Replicated${kind}MergeTree('/clickhouse/tables/${path}', '${replica}'${more})`;
    })
    .replace(
      WINDOW,
      `replicated_deduplication_window = $1, replicated_deduplication_window_seconds = ${WEEK_S}`,
    );
}
