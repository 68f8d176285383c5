// Writes chDB's configuration: users, roles, grants, fixed settings.
//
// Grants are an allow list. There is none for SOURCES (FILE, URL, S3, REMOTE, …), other engines, dictionaries,
// functions, named collections, backups or users. If ClickHouse has no grant for a kind of statement, statement.ts
// refuses it.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Readable {
  readonly database: string;
  readonly tables: readonly string[];
}

const SERVICE_GRANTS = [
  `SELECT, INSERT, ALTER, SHOW, TRUNCATE, OPTIMIZE, CREATE DATABASE, CREATE TABLE, CREATE VIEW,
   DROP DATABASE, DROP TABLE, DROP VIEW, KILL QUERY, SYSTEM MERGES ON *.*`,
  ...[
    ...['', 'Replacing', 'Summing', 'Aggregating', 'Collapsing', 'VersionedCollapsing'].map(
      (kind) => `${kind}MergeTree`,
    ),
    ...['Memory', 'Null', 'Log', 'TinyLog', 'StripeLog', 'Atomic'],
  ].map((engine) => `TABLE ENGINE ON ${engine}`),
];

/**
 * Settings that no caller may change: they name files or addresses, contain expressions, run text as a query, or choose
 * another parser than statement.ts expects. ClickHouse doesn't check the settings of subqueries, so statement.ts does.
 */
export const FIXED_SETTINGS = [
  'additional_result_filter',
  'additional_table_filters',
  'allow_experimental_ai_functions',
  'allow_experimental_eval_table_function',
  'allow_introspection_functions',
  'cluster_for_parallel_replicas',
  'dialect',
  'dynamic_disk_allow_from_env',
  'dynamic_disk_allow_include',
  'format_avro_schema_registry_url',
  'format_schema',
  'format_template_resultset',
  'format_template_row',
  'input_format_values_deduce_templates_of_expressions',
  'input_format_values_interpret_expressions',
  'output_format_schema',
  'parallel_replicas_custom_key',
  'rename_files_after_processing',
  'url_base',
];

export function writeAccess(dir: string, readable: Readable | undefined): string {
  const folder = join(dir, 'config');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const users = join(folder, 'users.xml');
  const config = join(folder, 'config.xml');
  const options = { mode: 0o600 };
  writeFileSync(users, usersXml(readable), options);
  // The table function `executable` finds no program in this folder.
  const noScripts = '<user_scripts_path>/dev/null/</user_scripts_path>';
  writeFileSync(
    config,
    `<clickhouse><users_config>${xmlText(users)}</users_config>${noScripts}</clickhouse>\n`,
    options,
  );
  return `--config-file=${config}`;
}

function usersXml(readable: Readable | undefined): string {
  const analyst = (readable?.tables ?? []).map((table) => `SELECT ON ${readable?.database}.${table}`);
  const grants = (all: readonly string[]) =>
    `<grants>${all.map((one) => `<query>GRANT ${one}</query>`).join('')}</grants>`;
  const fixed = FIXED_SETTINGS.map((name) => `<${name}><const/></${name}>`).join('');
  return `<clickhouse>
<profiles><default>
  <input_format_values_interpret_expressions>0</input_format_values_interpret_expressions>
  <input_format_values_deduce_templates_of_expressions>0</input_format_values_deduce_templates_of_expressions>
  <allow_introspection_functions>0</allow_introspection_functions>
  <constraints>${fixed}</constraints>
</default></profiles>
<quotas><default/></quotas>
<roles>
  <analyst>${analyst.length > 0 ? grants(analyst) : ''}</analyst>
  <service>${grants(SERVICE_GRANTS)}</service>
</roles>
<users><default>
  <no_password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
  ${grants(['analyst', 'service'])}
</default></users>
</clickhouse>
`;
}

function xmlText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
