// The schema's SQL is one text for a single server and for a cluster; placeholders stand for the differences.
//
// - On a cluster a table `x` is `x_local`, replicated within each shard, and `x` itself is the Distributed table over it. So
//   views, inserts and questions name the same tables as on one server.
// - Feeds (materialized views) go from local table to local table.
// - `deployment` and `schema_migrations` are not sharded but the same on every server.
//
// The servers need the macros {shard} and {replica}; see docs/scaling.md.

import type { ClickHouseSettings } from '@clickhouse/client';

/** The table for mutations and schema changes. */
export function localTable(name: string, cluster: string): string {
  return cluster === '' ? name : `${name}_local`;
}

/** ` ON CLUSTER name`, or nothing on one server. */
export function onCluster(cluster: string): string {
  return cluster === '' ? '' : ` ON CLUSTER ${cluster}`;
}

/** Settings of a connection to a cluster. Shards acknowledge an insert. */
export function clusterSettings(cluster: string): ClickHouseSettings {
  if (cluster === '') return {};
  return {
    distributed_foreground_insert: 1,
    // Subqueries read all shards.
    distributed_product_mode: 'global',
    // INSERT … SELECT distributes rows by the table's key. With ClickHouse's default of 2 they stay on their shard.
    parallel_distributed_insert_select: '0',
  };
}

/**
 * Splits a text into statements, without comments, and fills in placeholders. A statement ends with `;` at the end of a
 * line. Without a cluster, statements with {cluster} are left out.
 * @param cluster name in the servers' `remote_servers`, empty for one server
 * @param timeZone SHOP_TIMEZONE
 * @throws for an unknown placeholder
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

// `path`: arguments of a table that is replicated within its shard; `everywhere`: of a table that is the same on all
// servers. `path,` and `everywhere,` precede further arguments.

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
