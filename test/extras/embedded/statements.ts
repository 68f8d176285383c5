// Statements that would reach out of the embedded ClickHouse, one of each way. clickhouse-access.test.ts tries functions by name.

const q = (path: string) => `'${path}'`;

export function readFilesOrWrite(outside: string, secret: string, written: string): readonly string[] {
  return [
    `SELECT file(${q(secret)})`,
    `SELECT /* */ "fil\\x65" /**/ (${q(secret)})`,
    `SELECT 1 AS \`a'\`, file(${q(secret)}) AS \`b'\``,
    `SELECT '\`', file(${q(secret)}) AS \`b\``,
    `SELECT * APPLY(file) FROM (SELECT ${q(secret)})`,
    `EXPLAIN SELECT file(${q(secret)})`,
    `SELECT * FROM file(${q(secret)}, 'LineAsString')`,
    `SELECT * FROM ${q(secret)}`,
    `SELECT * FROM default.\`${secret}\``,
    `SELECT * FROM {t: Identifier}`,
    `SELECT * FROM view(SELECT * FROM file(${q(secret)}, 'LineAsString'))`,
    `SELECT * FROM format(Values, '(file(${q(`\\'${secret}\\'`).slice(1, -1)}))')`,
    `SELECT * FROM eval('SELECT file(\\'${secret}\\')') SETTINGS allow_experimental_eval_table_function = 1`,
    `SELECT * FROM executable('cat', 'LineAsString', 'x String')`,
    `SELECT 1 INTO OUTFILE ${q(written)}`,
    `SELECT 1 AS x FORMAT Template SETTINGS format_template_row = ${q(secret)}`,
    `SELECT 1 AS x FORMAT Protobuf SETTINGS output_format_schema = ${q(written)}`,
    `SELECT 1 SETTINGS additional_result_filter = 'throwIf(file(\\'${secret}\\') != \\'\\')'`,
    `INSERT INTO FUNCTION file(${q(written)}, 'CSV', 'x UInt8') VALUES (1)`,
    `INSERT INTO shop.shown (s) FROM INFILE ${q(secret)} FORMAT LineAsString`,
    `INSERT INTO shop.shown (s) VALUES (file(${q(secret)}))`,
    `INSERT INTO shop.shown (s) SETTINGS input_format_values_interpret_expressions = 1 VALUES (file(${q(secret)}))`,
    `INSERT INTO shop.shown VALUES (9, 'x'); SELECT 1 INTO OUTFILE ${q(written)}`,
    `INSERT INTO shop.shown FORMAT CSV 9,x\n\n;SELECT 1 INTO OUTFILE ${q(written)};\n`,
    `EXPLAIN SYNTAX INSERT INTO shop.shown VALUES (9, 'x'); SELECT 1 INTO OUTFILE ${q(written)}`,
    `CREATE TABLE shop.f (x String) ENGINE = File(LineAsString, ${q(secret)})`,
    `CREATE TABLE shop.f (x String DEFAULT file(${q(secret)})) ENGINE = Memory`,
    `CREATE TABLE shop.f (x UInt8) ENGINE = MergeTree ORDER BY x SETTINGS disk = disk(type = local, path = ${q(`${outside}/d/`)})`,
    `CREATE DATABASE f ENGINE = Filesystem(${q(outside)})`,
    `CREATE DICTIONARY shop.f (x String) PRIMARY KEY x SOURCE(FILE(path ${q(secret)} format 'LineAsString')) LAYOUT(DIRECT())`,
    `CREATE FUNCTION f AS () -> file(${q(secret)})`,
    `ATTACH TABLE shop.f FROM ${q(`${outside}/d/`)} (x UInt8) ENGINE = MergeTree ORDER BY x`,
    `ALTER TABLE shop.shown UPDATE s = file(${q(secret)}) WHERE 1`,
    `BACKUP TABLE shop.shown TO File(${q(written)})`,
    `RESTORE TABLE shop.shown FROM File(${q(written)})`,
    ...expressionsInTexts(secret),
    ...filtersOfSubqueries(secret),
  ];
}

/** `{t: String}` is the file's path: its text is nowhere in the statement. An error would show what was read. */
function expressionsInTexts(secret: string): readonly string[] {
  const columns = `'y UInt8, x UInt8 DEFAULT toUInt8(file(\\'${secret}\\'))'`;
  const alias = `'y String, x String ALIAS file(\\'${secret}\\')'`;
  return [
    `SELECT x FROM values(${alias}, 'a')`,
    `SELECT x FROM SQLStandardValues(${alias}, ('a'))`,
    `INSERT INTO shop.shown (a) SELECT x FROM input(${columns}) FORMAT CSV`,
    `SELECT structureToCapnProtoSchema(concat('x UInt8 DEFAULT toUInt8(fi', 'le(\\'', {t: String}, '\\'))'))`,
  ];
}

/** ClickHouse checks no constraints for the settings of a subquery. */
function filtersOfSubqueries(secret: string): readonly string[] {
  const filter = `additional_table_filters = {'shop.shown': 'toUInt8(file(\\'${secret}\\'))'}`;
  const filtered = `SELECT a FROM shop.shown SETTINGS ${filter}`;
  return [
    `SELECT * FROM (${filtered})`,
    `SELECT * FROM (${filtered.replace('additional_table_filters', '`additional_table_filters`')})`,
    `SELECT a FROM shop.shown WHERE a IN (${filtered})`,
    `CREATE VIEW shop.f AS SELECT * FROM (${filtered})`,
    `SELECT * FROM (SELECT getSetting('allow_introspection_functions') SETTINGS allow_introspection_functions = 1)`,
  ];
}

export function reachTheNetwork(port: number): readonly string[] {
  const at = `127.0.0.1:${port}`;
  const url = `http://${at}/bucket/key`;
  return [
    `SELECT * FROM url('${url}', CSV, 'x String')`,
    `SELECT * FROM remote('${at}', view(SELECT 1))`,
    `SELECT hasColumnInTable('${at}', 'shop', 'shown', 'a')`,
    `SELECT aiGenerate('x') SETTINGS allow_experimental_ai_functions = 1`,
    `INSERT INTO FUNCTION url('${url}', CSV, 'x String') SELECT s FROM shop.shown`,
    `CREATE TABLE shop.n (x String) ENGINE = URL('${url}', CSV)`,
    `CREATE TABLE shop.n (x UInt8) ENGINE = MergeTree ORDER BY x SETTINGS disk = disk(type = web, endpoint = '${url}/')`,
    `CREATE DATABASE n ENGINE = MySQL('${at}', 'd', 'u', 'p')`,
    `CREATE DICTIONARY shop.n (x String) PRIMARY KEY x SOURCE(HTTP(url '${url}' format 'CSV')) LAYOUT(DIRECT())`,
    `BACKUP TABLE shop.shown TO S3('${url}', 'a', 'b')`,
  ];
}
