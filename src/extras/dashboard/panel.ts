// What a panel is, the days that a request names, and a panel's statement for them.

import { fitsCharacters, MAX_HANDLE_CHARACTERS } from '../../identity-rules.js';

export interface Panel {
  readonly name: string;
  readonly title: string;
  /** `{from:Date}`, `{to:Date}`: first and last day. `{last_day}`: last complete day. `{time_zone}`: SHOP_TIMEZONE. */
  readonly sql: string;
  /** If true, the panel has one row per day, and the page also asks for the period before. */
  readonly isCompared?: true;
  /** Names of the parameters, which the statement has as `{<name>:String}`. */
  readonly parameters?: readonly string[];
}

export const IN_TIME =
  'occurred_at >= toDateTime64(toDate({from:Date}), 3, {time_zone}) AND occurred_at < toDateTime64(toDate({to:Date}) + 1, 3, {time_zone})';

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const LONGEST = 1_100;
/** A range may be this early and late, so that ClickHouse's type Date also holds the period before it. */
const [EARLIEST, LATEST] = [Date.UTC(1975, 0), Date.UTC(2147, 11, 31)];

export interface Range {
  readonly from: string;
  readonly to: string;
}

export function readRange(from: string, to: string): Range | string {
  const [first, last] = [dayOf(from), dayOf(to)];
  if (first === undefined || last === undefined)
    return 'The first and the last day are days like 2026-03-01.';
  if (first > last) return 'The first day is after the last one.';
  if (first < EARLIEST || last > LATEST) return 'Days are from 1975-01-01 to 2147-12-31.';
  const days = (last - first) / 86_400_000 + 1;
  if (days > LONGEST)
    return `${written(days)} days are too many at once: ${written(LONGEST)} is the limit. Choose a later first day.`;
  return { from, to };
}

const written = (n: number): string => n.toLocaleString('en');

function dayOf(text: string): number | undefined {
  const ms = DATE.test(text) ? Date.parse(text) : Number.NaN;
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text) ? ms : undefined;
}

function daysBefore({ from, to }: Range): Range {
  const before = 2 * Date.parse(from) - Date.parse(to) - 86_400_000;
  return { from: new Date(before).toISOString().slice(0, 10), to };
}

/** The same dates a year ago; 28 February for the 29th. */
const yearBefore = (day: string) =>
  `${Number(day.slice(0, 4)) - 1}${day.slice(4).replace('-02-29', '-02-28')}`;

/** A compared panel also has the days of the time before, or of the same time a year ago. */
export function comparedStatementOf(
  panel: Panel,
  range: Range,
  withYearAgo: boolean,
  timeZone = 'UTC',
): string {
  if (panel.isCompared === undefined) return statementOf(panel, range, timeZone);
  if (!withYearAgo) return statementOf(panel, daysBefore(range), timeZone);
  const ago = { from: yearBefore(range.from), to: yearBefore(range.to) };
  if (ago.to >= range.from) return statementOf(panel, { from: ago.from, to: range.to }, timeZone);
  const both = [ago, range].map((days) => `SELECT *\nFROM\n(\n${statementOf(panel, days, timeZone)}\n)`);
  return both.join('\nUNION ALL\n');
}

function lastDayOver(to: string, timeZone: string): string {
  const today = new Intl.DateTimeFormat('sv', { timeZone }).format(new Date());
  const yesterday = new Date(Date.parse(today) - 86_400_000).toISOString().slice(0, 10);
  return to < yesterday ? to : yesterday;
}

export function readParameters({ parameters = [] }: Panel, query: URLSearchParams) {
  const values = parameters.map((name) => [name, query.get(name) ?? ''] as const);
  return values.every(([, text]) => text !== '' && fitsCharacters(text, MAX_HANDLE_CHARACTERS))
    ? Object.fromEntries(values)
    : undefined;
}

/** Puts parameters into a statement for display. ClickHouse gets them separately. */
export function shownWith(sql: string, parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters).reduce(
    (text, [name, value]) =>
      text.replaceAll(`{${name}:String}`, () => `'${value.replace(/[\\']/g, '\\$&')}'`),
    sql,
  );
}

export function statementOf({ sql }: Panel, { from, to }: Range, timeZone = 'UTC'): string {
  return sql
    .replace(/\{from:(Date|String)\}/g, `'${from}'`)
    .replace(/\{to:(Date|String)\}/g, `'${to}'`)
    .replaceAll('{last_day}', `toDate('${lastDayOver(to, timeZone)}')`)
    .replaceAll('{time_zone}', `'${timeZone}'`);
}
