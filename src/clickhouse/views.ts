// Loads the analysts' views. Each run of migrate.ts replaces all: a view with `*` gets new columns, and changes by hand
// are undone.

import { readFileSync } from 'node:fs';
import { ALERT_COLUMNS, EVENT_COLUMNS, IS_EVENT, PURCHASE_COLUMNS } from './columns.js';

const DAY_NAMES = ['from', 'to', 'until'] as const;
type Day = (typeof DAY_NAMES)[number];

export interface View {
  readonly name: string;
  readonly about: string;
  readonly select: string;
  readonly days: readonly Day[];
  readonly sql: string;
}

export const QUESTIONS = [
  'most_wished',
  'open_wishes',
  'momentum',
  'wish_rate',
  'looked_never_wished',
  'before_the_wish',
  'wish_to_cart',
  'wish_to_purchase',
  'wished_never_bought',
  'shop_funnel',
  'wishers_returning',
  'visitor_cohorts',
  'visitors_by_week',
  'guests_converted',
  'restock_and_price_drops',
  'adds_by_source',
] as const;

const FILES = ['products', 'rows', 'visitors', 'days', 'steps', ...QUESTIONS];
// ClickHouse accepts '2026-1-1' and '2026-11-31', so a day must equal ClickHouse's spelling. The checks are subqueries,
// so that they run even if no row matches.
const isDay = (name: string) => `toString({${name}:Date}) = {${name}:String}`;
const DAYS = 'days are like 2026-03-01, from 1970-01-01 to 2149-06-06';
const IN_ORDER = `NOT (SELECT throwIf(NOT (${isDay('from')} AND ${isDay('to')}), '${DAYS}') OR throwIf({from:Date} > {to:Date}, 'from is after to: give the first day as from and the last one as to'))`;
const IS_DAY = `NOT (SELECT throwIf(NOT (${isDay('until')}), '${DAYS}'))`;
const FOLDER = new URL('../../../src/clickhouse/views/', import.meta.url);
const VIEW =
  /^-- ([^\n]+)\n(?:-- [^\n]*\n)*(CREATE OR REPLACE VIEW \{database\}\.(\w+) \{on_cluster\} AS\n([^;]+));\n/gm;

export function loadViews(): View[] {
  return FILES.flatMap((file) => {
    const text = readFileSync(new URL(`${file}.sql`, FOLDER), 'utf8')
      .replace('{event_columns}', EVENT_COLUMNS)
      .replace('{purchase_columns}', PURCHASE_COLUMNS)
      .replace('{alert_columns}', ALERT_COLUMNS)
      .replace('{is_event}', IS_EVENT)
      .replaceAll('{in_order}', IN_ORDER)
      .replace('{is_day}', IS_DAY);
    return Array.from(text.matchAll(VIEW), ([, about = '', statement, name = '', select = '']) => ({
      name,
      about,
      select,
      days: DAY_NAMES.filter((day) => select.includes(`{${day}:`)),
      sql: `${statement}\nCOMMENT '${about.replaceAll("'", "''")}';\n`,
    }));
  });
}

export function exampleOf({ name, days }: Pick<View, 'name' | 'days'>): string {
  const given = days.map((day) => `${day} = '2026-03-${day === 'from' ? '01' : '31'}'`);
  return given.length === 0 ? name : `${name}(${given.join(', ')})`;
}

export function definitionOf(question: string): string {
  const view = loadViews().find(({ name }) => name === question);
  if (view === undefined) throw new Error(`no view ${question}`);
  return view.select.replaceAll('{database}.', '').replace(` AND ${IN_ORDER}`, '');
}
