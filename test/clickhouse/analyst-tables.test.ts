// What the analyst may read is a list by name, so a new table is hidden until it is added to the list. This is where that is
// noticed: every table of the schema is either the analyst's or the service's own.

import { readFileSync } from 'node:fs';
import t from 'tap';
import { ANALYST_TABLES } from '../../src/clickhouse/analyst-tables.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { loadViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { startTestClickHouse } from '../harness/clickhouse.js';

const PRIVATE = [
  'deployment',
  'schema_migrations',
  'views_put',
  'products_feed',
  'profile_merges_feed',
  'visit_days_feed',
  'steps_feed',
  'visitor_merges_feed',
];
/** Views with parameters can't be read without them. */
const parametersOf = (name: string): string => {
  const { sql = '' } = loadViews().find((view) => view.name === name) ?? {};
  if (sql.includes('{until:Date}')) return "(until = '2025-02-01')";
  return sql.includes('{from:Date}') ? "(from = '2025-01-01', to = '2025-02-01')" : '';
};

const server = await startTestClickHouse({
  databases: ['shop'],
  readable: { database: 'shop', tables: ANALYST_TABLES },
});
t.teardown(() => server.stop());
const client = createClickHouse(server.url);
t.teardown(() => client.close());
const answer = await client.query({
  query: "SELECT name FROM system.tables WHERE database = 'shop' ORDER BY name",
  format: 'JSONEachRow',
});
const tables = (await answer.json<{ name: string }>()).map(({ name }) => name);

t.test('every table of the schema is on one of the two lists', (t) => {
  for (const name of tables) {
    const places = [ANALYST_TABLES, PRIVATE].filter((list) => list.includes(name));
    t.equal(places.length, 1, `${name}: put it into ANALYST_TABLES, or into PRIVATE here`);
  }
  t.end();
});

t.test('the analyst can read what is on its list, and not the rest', async (t) => {
  const analyst = createClickHouse(new URL(server.url).origin);
  t.teardown(() => analyst.close());
  for (const name of tables) {
    const reading = analyst.query({ query: `SELECT * FROM shop.${name}${parametersOf(name)} LIMIT 1` });
    if (ANALYST_TABLES.includes(name)) await t.resolves(reading, name);
    else await t.rejects(reading, /Not enough privileges/, name);
    await reading.then((result) => result.text()).catch(() => {});
  }
});

t.test('docs/analysts.md grants the same on a server', async (t) => {
  const text = readFileSync(new URL('../../../docs/analysts.md', import.meta.url), 'utf8');
  const granted = Array.from(
    text.matchAll(/^GRANT SELECT ON wishmeter\.(\w+) TO wishmeter_reader;/gm),
    ([, name]) => name,
  );
  t.same(granted, ANALYST_TABLES);
  const [, sql = ''] = /```sql\n(CREATE ROLE[\s\S]*?)```/.exec(text) ?? [];
  const statements = sql.split(/;\n/).filter((statement) => statement.trim() !== '');
  t.ok(statements.length > ANALYST_TABLES.length);
  for (const statement of statements) {
    const query_params = { statement };
    const parsed = await client.query({ query: 'SELECT formatQuery({statement: String})', query_params });
    t.ok(await parsed.text(), statement);
  }
});

t.test('docs/analysts.md has each question with the definition that is in the database', (t) => {
  const text = readFileSync(new URL('../../../docs/analysts.md', import.meta.url), 'utf8');
  for (const name of QUESTIONS) {
    const { sql = '' } = loadViews().find((view) => view.name === name) ?? {};
    const definition = sql
      .replace(/^-- .*\n/gm, '')
      .replaceAll('{database}.', '')
      .trim();
    t.ok(text.includes(`\`\`\`sql\nSELECT * FROM ${name}(`), `${name}: how to ask`);
    t.ok(text.includes(`\`\`\`sql\n${definition}\n\`\`\``), `${name}: its definition`);
  }
  t.end();
});
