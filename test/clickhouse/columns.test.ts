// The columns of the views, by name and type: those of the contract, and those that docs/analysts.md tells of, which has every
// view and every column. UPDATE_DOCS=1 writes all but what a column means.

import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { PAYLOAD_COLUMNS } from '../../src/clickhouse/columns.js';
import { exampleOf, loadViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { encodeEvent } from '../../src/events/row.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { identityOf } from '../harness/samples.js';
import { checkSection, UPDATE } from '../harness/sections.js';

const FILE = 'docs/analysts.md';
const TIME = "DateTime64(3, 'UTC')";
const SKETCH = 'AggregateFunction(uniqCombined(14), String)';

const EVENTS = [
  'event_id UUID',
  'type LowCardinality(String)',
  `occurred_at ${TIME}`,
  'profile_id String',
  'customer_id Nullable(String)',
  'session_id Nullable(String)',
  'device LowCardinality(String)',
  'locale LowCardinality(String)',
  'origin LowCardinality(String)',
  'product_id String',
  'variant_id String',
  'product_handle String',
  'source String',
  'channel String',
  'share_code String',
  'currency LowCardinality(String)',
  'inventory_available Nullable(Bool)',
  'quantity Nullable(UInt32)',
  'price Nullable(Decimal(18, 2))',
  'compare_at Nullable(Decimal(18, 2))',
  'payload String',
];
const VISITS = [
  `occurred_at ${TIME}`,
  'profile_id String',
  'product_handle String',
  'device LowCardinality(String)',
];
const PURCHASES = [
  `occurred_at ${TIME}`,
  `updated_at ${TIME}`,
  'order_id String',
  'profile_id String',
  'customer_id Nullable(String)',
  'session_id Nullable(String)',
  'product_id String',
  'variant_id String',
  'quantity UInt32',
  'price Nullable(Decimal(18, 2))',
  'discount Decimal(18, 2)',
  'amount Nullable(Decimal(18, 2))',
  'currency LowCardinality(String)',
  'test Bool',
  // Beyond the contract, so after all others.
  'product_handle String',
];
/** The same rows under the present profile. */
const byVisitor = (columns: readonly string[]) => [
  ...columns.filter((column) => column !== 'profile_id String'),
  'profile_id String',
  'recorded_profile_id String',
];

const CONTRACT: Readonly<Record<string, readonly string[]>> = {
  events: EVENTS,
  visits: VISITS,
  purchases: PURCHASES,
  events_by_visitor: byVisitor(EVENTS),
  visits_by_visitor: byVisitor(VISITS),
  purchases_by_visitor: byVisitor(PURCHASES),
  visits_per_day: ['day Date', 'product_handle String', 'device LowCardinality(String)', 'visits UInt64'],
  visitors_per_day: [
    'day Date',
    'product_handle String',
    'visits UInt64',
    'visitors UInt64',
    `visitors_sketch ${SKETCH}`,
  ],
  share_opens: [`occurred_at ${TIME}`, 'share_code String'],
  product_alerts: [
    ...[`occurred_at ${TIME}`, 'type LowCardinality(String)', 'profile_id String'],
    ...['customer_id Nullable(String)', 'session_id Nullable(String)'],
    ...['product_id String', 'variant_id String', 'product_handle String'],
    ...[
      'price_before Nullable(Decimal(18, 2))',
      'price Nullable(Decimal(18, 2))',
      'currency LowCardinality(String)',
    ],
  ],
  shop_visitors_per_day: ['day Date', 'visits UInt64', 'visitors UInt64', `visitors_sketch ${SKETCH}`],
  product_funnel: [
    'product_id String',
    'product_handle String',
    'visits UInt64',
    'visitors UInt64',
    'wishers UInt64',
    'carters UInt64',
    'buyers UInt64',
    'revenue Map(String, Decimal(38, 2))',
  ],
};

const server = await startTestClickHouse(t, { databases: ['shop'] });
const client = connectToClickHouse(t, server.url, 'shop');

interface Column {
  readonly name: string;
  readonly type: string;
}

async function columnsOf(asked: string): Promise<Column[]> {
  const query = asked.includes('(') ? `DESCRIBE (SELECT * FROM ${asked})` : `DESCRIBE TABLE ${asked}`;
  const answer = await client.query({ query, format: 'JSONEachRow' });
  return await answer.json<Column>();
}

const views = await Promise.all(
  loadViews().map(async (view) => ({ ...view, columns: await columnsOf(exampleOf(view)) })),
);
const isQuestion = (name: string) => QUESTIONS.includes(name as (typeof QUESTIONS)[number]);
const named = (columns: readonly Column[]) => columns.map(({ name }) => `\`${name}\``).join(', ');

t.test('analysts see the columns of the contract', (t) => {
  for (const [view, expected] of Object.entries(CONTRACT)) {
    const { columns = [] } = views.find(({ name }) => name === view) ?? {};
    t.same(
      columns.map(({ name, type }) => `${name} ${type}`),
      expected,
      view,
    );
  }
  t.end();
});

t.test(
  'docs/api.md says which fields of a payload become columns, in which types, and by which values',
  (t) => {
    const text = readFileSync('docs/api.md', 'utf8');
    const [, section = ''] = /<!-- payload -->\n(.*?)<!-- \/payload -->/s.exec(text) ?? [];
    const rows = Array.from(section.matchAll(/^\| `(\w+)` \| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$/gm));
    t.same(Object.fromEntries(rows.map(([, field, column]) => [field, column])), PAYLOAD_COLUMNS);
    const { columns = [] } = views.find(({ name }) => name === 'events') ?? {};
    for (const [, field = '', column = '', type, fills = '', leaves = ''] of rows) {
      t.equal(type, columns.find(({ name }) => name === column)?.type, column);
      for (const [values, isFilled] of [
        [fills, true],
        [leaves, false],
      ] as const)
        for (const [, value = ''] of values.replace(/\(.*?\)/g, '').matchAll(/`(.+?)`/g)) {
          const payload = { [field]: JSON.parse(value) };
          const event = {
            type: 'add',
            origin: 'event',
            profileId: 'p',
            identity: identityOf({}),
            payload,
          } as const;
          t.equal(column in JSON.parse(encodeEvent(event)), isFilled, `${field}: ${value}`);
        }
    }
    t.end();
  },
);

t.test('docs/analysts.md has the columns of every view that is no question', (t) => {
  const rows = views
    .filter(({ name }) => !isQuestion(name))
    .map(({ name, columns, about }) => `| \`${name}\` | ${named(columns)} | ${about} |`);
  checkSection(t, FILE, 'views', ['| View | Columns | Shows |', '|---|---|---|', ...rows].join('\n'));
  t.end();
});

t.test('docs/analysts.md has the columns of every question, where it is asked', (t) => {
  for (const view of views.filter(({ name }) => isQuestion(name))) {
    const asked = `\`\`\`sql\nSELECT * FROM ${exampleOf(view)}\n\`\`\`\n\n`;
    const told = `Columns: ${named(view.columns)}.\n`;
    const text = readFileSync(FILE, 'utf8');
    t.ok(text.includes(asked), `${view.name}: how to ask`);
    if (UPDATE) {
      const [before = '', after] = text.split(asked);
      if (after === undefined) continue;
      writeFileSync(FILE, before + asked + told + after.replace(/^Columns: .*\n/, ''));
    } else t.ok(text.includes(asked + told), `${view.name}: ${told}`);
  }
  t.end();
});

t.test('docs/analysts.md says what each column is, once, with every type that it has', (t) => {
  const [, told = ''] =
    /<!-- columns -->\n([\s\S]*?)<!-- \/columns -->/.exec(readFileSync(FILE, 'utf8')) ?? [];
  const documented = Array.from(told.matchAll(/^\| (`.*?`) \| (.*?) \| .+ \|$/gm)).flatMap(
    ([, names = '', types = '']) => Array.from(names.matchAll(/`(\w+)`/g), ([, name]) => `${name}: ${types}`),
  );
  const types = new Map<string, Set<string>>();
  for (const { columns } of views)
    for (const { name, type } of columns) types.set(name, (types.get(name) ?? new Set()).add(type));
  t.same(
    documented.sort(),
    [...types].map(([name, all]) => `${name}: ${[...all].sort().join(', or ')}`).sort(),
  );
  t.end();
});
