// docs/privacy.md tells of every kind of key and of every column, and of nothing that is not there.

import { readFileSync } from 'node:fs';
import t from 'tap';
import { VISITOR_TABLES } from '../src/clickhouse/erase.js';
import { loadMigrations } from '../src/clickhouse/migrate.js';
import { createKeys } from '../src/redis/keys.js';

const [redis = '', clickhouse = ''] = readFileSync('docs/privacy.md', 'utf8').split('## ClickHouse');
const rowsOf = (text: string) =>
  [...text.matchAll(/^\| `(\w+)` \|(.*)\|$/gm)].map(([, name = '', rest = '']) => ({
    name,
    cells: rest.split(' | ').map((cell) => cell.trim()),
  }));

/** Columns of each table, as the migrations make them. */
function schema(): Map<string, Set<string>> {
  const tables = new Map<string, Set<string>>();
  for (const { sql } of loadMigrations()) {
    for (const [, name = '', body = ''] of sql.matchAll(
      /CREATE TABLE (?:IF NOT EXISTS )?\{database\}\.(\w+)\s*\(\n(.*?)\n\)/gs,
    )) {
      const columns = [...body.matchAll(/^ {4}([a-z_]+) [A-Z]/gm)].map(([, column = '']) => column);
      tables.set(name, new Set(columns));
    }
    for (const [, name = '', body = ''] of sql.matchAll(/ALTER TABLE \{database\}\.(\w+)(.*?);/gs))
      for (const [, column = ''] of body.matchAll(/ADD COLUMN (?:IF NOT EXISTS )?(\w+)/g))
        tables.get(name)?.add(column);
  }
  return tables;
}

t.test('Redis: every kind of key is listed, with its retention and its readers', async (t) => {
  const rows = rowsOf(redis);
  const kinds = Object.keys(createKeys('wm'));
  t.same(rows.map(({ name }) => name).sort(), kinds.sort());
  for (const { name, cells } of rows) {
    t.equal(cells.length, 3, name);
    t.notOk(cells.includes(''), `${name} has no empty cell`);
  }
});

t.test('ClickHouse: every column of every table is told of', async (t) => {
  const told = rowsOf(clickhouse).map(({ name, cells: [columns = ''] }) => [
    name,
    [...columns.matchAll(/`(\w+)`/g)].map(([, column]) => column).sort(),
  ]);
  const there = [...schema()].map(([name, columns]) => [name, [...columns].sort()]);
  t.ok(there.length >= 2, 'the migrations were read');
  t.same(told.sort(), there.sort());
});

t.test('every table with rows of visitors is erased from', async (t) => {
  const ofVisitors = [...schema()]
    .filter(([, columns]) => ['profile_id', 'old_id', 'visitor', 'old'].some((name) => columns.has(name)))
    .map(([name]) => name);
  t.same(VISITOR_TABLES.map(({ name }) => name).sort(), ofVisitors.sort());
});
