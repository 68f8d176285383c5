// One SQL text for a single server and a cluster, with placeholders. On a cluster `x` is the Distributed table over
// `x_local`, which is replicated within each shard; materialized views go from local to local table.

import type { ClickHouseSettings } from '@clickhouse/client';

export function localTable(name: string, cluster: string): string {
  return cluster === '' ? name : `${name}_local`;
}

export function onCluster(cluster: string): string {
  return cluster === '' ? '' : ` ON CLUSTER ${cluster}`;
}

export function clusterSettings(cluster: string): ClickHouseSettings {
  if (cluster === '') return {};
  return {
    distributed_foreground_insert: 1,
    // Subqueries read all shards.
    distributed_product_mode: 'global',
    // With the default of 2, rows of INSERT … SELECT stay on their shard.
    parallel_distributed_insert_select: '0',
  };
}

/** A statement ends with `;` at a line's end. Without a cluster, statements with {cluster} are left out. */
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

// Table arguments. `path`: replicated within its shard; `everywhere`: the same on all servers. With a comma they
// precede further arguments.

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
