// Requests of analysts' tools, from the sources of their drivers. The drivers are not run here.

export interface ToolRequest {
  readonly tool: string;
  readonly params: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly statements: readonly string[];
}

const basic = { authorization: `Basic ${Buffer.from('analyst:').toString('base64')}` };
const text = { 'content-type': 'text/plain; charset=UTF-8' };

const jdbc = { 'x-clickhouse-database': 'shop', 'x-clickhouse-format': 'RowBinaryWithNamesAndTypes' };

const parameters = (...lines: string[]) => Object.fromEntries(new URLSearchParams(lines.join('&')));

/** clickhouse-jdbc: DBeaver, and Metabase's driver. */
const JDBC_STATEMENTS = [
  'SELECT 1',
  "select currentUser() user, timezone() timezone, version() version, ifnull((select value from system.settings where name = 'readonly'), '0') readonly FORMAT RowBinaryWithNamesAndTypes",
  "SELECT currentUser() AS user, timezone() AS timezone, version() AS version, sum(if(name = 'readonly', toUInt8OrZero(value), 0)) FROM system.settings",
  'SELECT database AS TABLE_SCHEM, NULL AS TABLE_CATALOG FROM system.tables GROUP BY database',
  "SELECT name AS TABLE_SCHEM, null AS TABLE_CATALOG FROM system.databases WHERE name LIKE '%' ORDER BY name",
  "SELECT '' AS TABLE_CAT, t.database AS TABLE_SCHEM, t.name AS TABLE_NAME, t.engine, t.comment AS REMARKS FROM system.tables t JOIN system.databases d ON t.database = d.name WHERE t.database LIKE '%' AND t.name LIKE '%' ORDER BY t.database, t.name",
  "SELECT database, table, name, type, default_kind, comment, position FROM system.columns WHERE database LIKE 'shop' AND table LIKE '%' ORDER BY database, table, position",
  "SELECT database, name, create_table_query, primary_key FROM system.tables WHERE database = 'shop'",
  'SELECT name, alias_to, case_insensitive FROM system.data_type_families ORDER BY name',
  'SELECT name FROM system.functions WHERE is_aggregate = 0 LIMIT 5',
  "SELECT name, value FROM system.settings WHERE name IN ('max_execution_time', 'readonly')",
  'SELECT database, table, sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active GROUP BY database, table',
  'SELECT * FROM shop.shown LIMIT 0',
  'SELECT a, count() FROM `shop`.`shown` GROUP BY a ORDER BY a LIMIT 2000',
];

/** clickhouse-connect: Superset. */
const CONNECT_STATEMENTS = [
  'SELECT version(), timezone()',
  'SELECT name, value, readonly as readonly FROM system.settings LIMIT 10000\n FORMAT Native',
  'SHOW DATABASES\n FORMAT Native',
  'SHOW TABLES FROM `shop`\n FORMAT Native',
  'EXISTS TABLE `shop`.`shown`',
  'DESCRIBE TABLE `shop`.`shown`\n FORMAT Native',
  "SELECT name FROM system.tables WHERE database = 'shop' AND engine LIKE '%View%'\n FORMAT Native",
  'SELECT a AS a, count() AS `count` FROM `shop`.`shown` GROUP BY a ORDER BY `count` DESC LIMIT 1000\n FORMAT Native',
  'SELECT * FROM `shop`.`shown` LIMIT 0\n FORMAT JSON',
];

export const TOOLS: readonly ToolRequest[] = [
  {
    tool: 'clickhouse-jdbc 0.4 to 0.7',
    params: parameters(
      'max_execution_time=30&max_result_rows=2000&result_overflow_mode=break&extremes=0',
      'query_id=b1f0&session_id=s-1&session_check=0&session_timeout=30',
    ),
    headers: {
      'x-clickhouse-user': 'analyst',
      ...jdbc,
      accept: '*/*',
      ...text,
      'user-agent': 'ClickHouse-JdbcDriver/0.7.2',
    },
    statements: JDBC_STATEMENTS,
  },
  {
    tool: 'clickhouse-jdbc 0.8 and later',
    params: { query_id: 'b1f1', max_result_rows: '0', wait_end_of_query: '1' },
    headers: {
      ...basic,
      ...jdbc,
      'x-clickhouse-query-id': 'b1f1',
      'content-type': 'text/plain',
      'user-agent': 'jdbc-v2/0.9.0 clickhouse-java-v2/0.9.0',
    },
    statements: JDBC_STATEMENTS,
  },
  {
    tool: 'clickhouse-jdbc 0.8 with HTTP compression',
    params: { enable_http_compression: '1', send_progress_in_http_headers: '0' },
    headers: { ...basic, 'accept-encoding': 'lz4', 'x-clickhouse-database': 'shop' },
    statements: ['SELECT version()'],
  },
  {
    tool: 'clickhouse-connect',
    params: parameters(
      'database=shop&session_id=0c5f1d6e-3f6c-4b1e-9f0e-0d6f3c6b0a11&enable_http_compression=1&wait_end_of_query=1',
      'send_progress_in_http_headers=1&http_headers_progress_interval_ms=120000&date_time_input_format=best_effort',
      'cast_string_to_dynamic_use_inference=1&client_protocol_version=54405',
    ),
    headers: { ...basic, ...text, 'accept-encoding': 'lz4,zstd,br,gzip' },
    statements: CONNECT_STATEMENTS,
  },
  {
    tool: "Grafana's plugin of Altinity",
    params: { default_format: 'JSON', max_execution_time: '60' },
    headers: { 'x-clickhouse-user': 'analyst', ...text },
    statements: [
      'SELECT 1 FORMAT JSON',
      "SELECT name, database, table, type FROM system.columns WHERE table = 'shown' ORDER BY type, name FORMAT JSON",
      '/* grafana dashboard=x, user=1 */ SELECT a, count() FROM shop.shown GROUP BY a FORMAT JSON',
    ],
  },
];
