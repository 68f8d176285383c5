// What the analyst may read of ClickHouse's database `system`: names, sizes and settings, for which clients ask. Its
// other tables have statements, errors, threads and disks.
//
// chDB ignores `select_from_system_db_requires_grant`, so any user may read all of them. We check the canonical text,
// which spells each table in one way, and refuse statements that name a table by another.

const SHOWN: ReadonlySet<string> = new Set(
  `aggregate_function_combinators collations columns current_roles data_skipping_indices data_type_families
  database_engines databases dictionaries enabled_roles formats functions keywords numbers numbers_mt one parts
  parts_columns projections settings table_engines table_functions tables time_zones zeros zeros_mt`.split(
    /\s+/,
  ),
);

const TABLE = /\bsystem\.`?(\w+)/g;
const SHOW = /^\W*SHOW (?:(?:CHANGED|CURRENT|ENABLED|EXTENDED|FULL|TEMPORARY) )*(\w+)/;
const SHOWS: ReadonlySet<string> = new Set(
  'COLUMNS CREATE DATABASES DICTIONARIES ENGINES FUNCTIONS GRANTS INDEXES ROLES SETTING SETTINGS TABLES'.split(
    ' ',
  ),
);

/** @param code canonical, without texts @returns what an analyst may not read */
export function hiddenPart(code: string, database = ''): string | undefined {
  if (database === 'system') return 'The database system as default';
  for (const [, table = ''] of code.matchAll(TABLE)) if (!SHOWN.has(table)) return `system.${table}`;
  const show = SHOW.exec(code)?.[1];
  if (show !== undefined && !SHOWS.has(show)) return `SHOW ${show}`;
  if (/\bmerge`?\(/i.test(code)) return 'merge()';
  return /:\s*Identifier\b/i.test(code) ? 'A parameter of the type Identifier' : undefined;
}
