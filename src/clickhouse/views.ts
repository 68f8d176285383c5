// The views that analysts ask, in views/: each question in a file of its own, the others by what they are about. Each start
// puts all of them in place, those first that others read: a view that has `*` of another one gets its new columns, and
// what was changed by hand is put back.

import { readFileSync } from 'node:fs';
import { ALERT_COLUMNS, EVENT_COLUMNS, IS_EVENT, PURCHASE_COLUMNS } from './columns.js';

export interface View {
  readonly name: string;
  /** What it answers, in a line: the first line of the comment above it. */
  readonly about: string;
  readonly select: string;
  /** The statement that puts it in place, with placeholders; see cluster.ts. */
  readonly sql: string;
}

/** The questions of docs/analysts.md, in its order. */
export const QUESTIONS = [
  'most_wished',
  'open_wishes',
  'momentum',
  'wish_rate',
  'looked_never_wished',
  'before_the_wish',
  'wish_to_cart',
  'wish_to_purchase',
  'shop_funnel',
  'wishers_returning',
  'restock_and_price_drops',
  'adds_by_source',
] as const;

const FILES = ['products', 'rows', 'visitors', 'days', 'steps', ...QUESTIONS];
/** Days in the wrong order are an error: an empty answer would look like "nobody". As a subquery it is evaluated without rows, too. */
const IN_ORDER =
  "NOT (SELECT throwIf({from:Date} > {to:Date}, 'from is after to: give the first day as from and the last one as to'))";
// dist/src/clickhouse/ -> the project's root; SQL is not compiled.
const FOLDER = new URL('../../../src/clickhouse/views/', import.meta.url);
const VIEW =
  /^-- ([^\n]+)\n(?:-- [^\n]*\n)*(CREATE OR REPLACE VIEW \{database\}\.(\w+) \{on_cluster\} AS\n([^;]+));\n/gm;

/** All of them, in the order in which they are put in place. */
export function loadViews(): View[] {
  return FILES.flatMap((file) => {
    const text = readFileSync(new URL(`${file}.sql`, FOLDER), 'utf8')
      .replace('{event_columns}', EVENT_COLUMNS)
      .replace('{purchase_columns}', PURCHASE_COLUMNS)
      .replace('{alert_columns}', ALERT_COLUMNS)
      .replace('{is_event}', IS_EVENT)
      .replace('{in_order}', IN_ORDER);
    return Array.from(text.matchAll(VIEW), ([, about = '', statement, name = '', select = '']) => ({
      name,
      about,
      select,
      sql: `${statement}\nCOMMENT '${about.replaceAll("'", "''")}';\n`,
    }));
  });
}

/** What a question selects, as a statement of its own; the days and the time zone are placeholders. */
export function definitionOf(question: (typeof QUESTIONS)[number]): string {
  const view = loadViews().find(({ name }) => name === question);
  if (view === undefined) throw new Error(`no view ${question}`);
  return view.select.replaceAll('{database}.', '').replace(` AND ${IN_ORDER}`, '');
}
