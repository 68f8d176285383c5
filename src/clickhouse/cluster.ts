// One text of the schema for one server and for a cluster of them: what differs is a placeholder in the SQL.
//
// - On a cluster a table `x` is `x_local`, replicated within each shard, and `x` itself is the Distributed table over it. So
//   views, inserts and questions name the same tables as on one server.
// - Feeds (materialized views) go from local table to local table.
// - `deployment` and `schema_migrations` are not sharded but the same on every server.
//
// The servers need the macros {shard} and {replica}; see docs/operations.md.

import type { ClickHouseSettings } from '@clickhouse/client';

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
 * The statements of a text as ClickHouse takes them: without comments, with values in place of placeholders. Each is ended
 * by a `;` at the end of a line. One server leaves out those that have {cluster}.
 * @param cluster its name in the servers' `remote_servers`, empty for one server
 * @param timeZone SHOP_TIMEZONE: of views
 * @throws where a placeholder is not known
 */
export function statementsOf(sql: string, database: string, cluster = '', timeZone = 'UTC'): string[] {
  const values: Values = {
    ...(cluster === '' ? onOneServer(database) : onMany(database, cluster)),
    time_zone: `'${timeZone}'`,
  };
  return sql
    .replace(/^--[^\n]*\n/gm, '')
    .split(/;\n/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '' && (cluster !== '' || !statement.includes('{cluster}')))
    .map((statement) =>
      statement.replace(/\{(\w+,?)\}/g, (placeholder, name) => {
        const value = values[name];
        if (value === undefined) throw new Error(`cluster.ts does not know ${placeholder}`);
        return value;
      }),
    );
}

type Values = Readonly<Record<string, string>>;

// `path` is where the replicas of a shard find each other, `path,` the same before further arguments, and `everywhere`
// makes all servers replicas of one table; `everywhere,` as `path,`.

function onOneServer(database: string): Values {
  return {
    database,
    on_cluster: '',
    local: '',
    replicated: '',
    path: '',
    'path,': '',
    everywhere: '',
    'everywhere,': '',
  };
}

function onMany(database: string, cluster: string): Values {
  // {table}, {shard} and {replica} are macros of ClickHouse.
  const path = `'/clickhouse/tables/{shard}/${database}/{table}', '{replica}'`;
  const everywhere = `'/clickhouse/tables/all/${database}/{table}', '{shard}-{replica}'`;
  return {
    database,
    cluster,
    on_cluster: `ON CLUSTER ${cluster}`,
    local: '_local',
    replicated: 'Replicated',
    path,
    'path,': `${path},`,
    everywhere,
    'everywhere,': `${everywhere},`,
  };
}
