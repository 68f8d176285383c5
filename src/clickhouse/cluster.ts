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
  const values = placeholders(database, cluster, timeZone);
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

/**
 * Without a cluster, most placeholders are empty. Arguments of tables: `path` if the table is replicated within its
 * shard, `everywhere` if it is the same on all servers; with a comma if more arguments follow.
 */
function placeholders(database: string, cluster: string, timeZone: string): Readonly<Record<string, string>> {
  const path = `'/clickhouse/tables/{shard}/${database}/{table}', '{replica}'`;
  const everywhere = `'/clickhouse/tables/all/${database}/{table}', '{shard}-{replica}'`;
  const ofCluster = {
    cluster,
    on_cluster: `ON CLUSTER ${cluster}`,
    local: '_local',
    replicated: 'Replicated',
    path,
    'path,': `${path},`,
    everywhere,
    'everywhere,': `${everywhere},`,
  };
  const none = Object.fromEntries(Object.keys(ofCluster).map((name) => [name, '']));
  return { ...(cluster === '' ? none : ofCluster), database, time_zone: `'${timeZone}'` };
}
