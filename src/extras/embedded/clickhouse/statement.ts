// Refuses statements that ClickHouse's grants can't refuse: by their kind, files (INTO OUTFILE, FROM INFILE), functions
// (functions.ts), and settings of subqueries. Table functions are refused here and by grants.
//
// ClickHouse's parser first formats a statement as canonical text, without comments and with one kind of quotes. Only
// the canonical text is checked and run.

import { FIXED_SETTINGS } from './access.js';
import { ClickHouseError } from './errors.js';
import { hiddenPart } from './system-tables.js';
import type { Role } from './users.js';

const READING = ['SELECT', 'WITH', 'SHOW', 'DESCRIBE', 'EXISTS', 'EXPLAIN'];
const WRITING = (
  'INSERT CREATE REPLACE ALTER DROP UNDROP TRUNCATE OPTIMIZE RENAME ' +
  'EXCHANGE DELETE UPDATE CHECK USE SET SYSTEM KILL'
).split(' ');
const KINDS: Readonly<Record<Role, readonly string[]>> = {
  analyst: READING,
  service: [...READING, ...WRITING],
};

const QUOTED = /`(?:\\.|[^`\\])*`|'(?:\\.|[^'\\])*'/gs;

/**
 * Table functions that read only the database. values, null, format, input and generateRandom are left out, because the
 * text of their columns may contain expressions, as in 'x String ALIAS file(…)'.
 */
const TABLE_FUNCTIONS_ON =
  'numbers numbers_mt zeros zeros_mt primes generateseries generate_series sqlstandardvalues view merge'.split(
    ' ',
  );

const SETTINGS_CLAUSE = /\bSETTINGS [^ ]+ = /;
const FIXED_SETTING = new RegExp(`\\b(${FIXED_SETTINGS.join('|')})\`? = `);

const NAME = String.raw`(?:\w+|\`[^\`]+\`)`;
const SPACE = String.raw`(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*`;
const INSERT = new RegExp(`^${SPACE}INSERT\\b`, 'i');
const BEFORE_DATA = new RegExp(
  String.raw`^${SPACE}INSERT\s+INTO\s+(?:TABLE\s+)?${NAME}(?:\.${NAME})?\s*(?:\([\w\s,.*\`()]*\)\s*)?\b(?:FORMAT\s+(\w+)|VALUES\b)[ \t]*\r?\n?`,
  'i',
);
/** An INSERT's data must begin within so many bytes of the statement. */
const HEAD_BYTES = 64 * 1024;

export interface Statement {
  readonly sql: string;
  readonly isInsert: boolean;
  readonly data?: { readonly bytes: Buffer; readonly format: string };
}

/** Names in lower case. */
export interface Names {
  readonly tableFunctions: ReadonlySet<string>;
  readonly refusedFunctions: ReadonlySet<string>;
}

export interface Judged {
  readonly sql: string;
  readonly onlyReads: boolean;
  readonly format: string | undefined;
}

/** @param text the URL's `query`, then the body */
export function readStatement(text: Buffer): Statement {
  const beginning = text.toString('latin1', 0, HEAD_BYTES); // one character per byte
  const [head, format = 'Values'] = BEFORE_DATA.exec(beginning) ?? [];
  const isInsert = INSERT.test(beginning);
  if (head === undefined) return { sql: text.toString(), isInsert };
  const bytes = text.subarray(head.length);
  return { sql: text.toString('utf8', 0, head.length), isInsert, data: { bytes, format } };
}

export function judge(
  canonical: string,
  { data }: Statement,
  { role, database }: { readonly role: Role; readonly database: string | undefined },
  { tableFunctions, refusedFunctions }: Names,
): Judged {
  const code = withoutTexts(canonical);
  const denied = (what: string) =>
    ClickHouseError.of('ACCESS_DENIED', `${what} is off in the embedded ClickHouse.`);
  const kind = /[A-Za-z]+/.exec(code)?.[0]?.toUpperCase() ?? '';
  if (!KINDS[role].includes(kind)) {
    throw ClickHouseError.of('ACCESS_DENIED', `Not enough privileges: ${role} may not run ${kind}.`);
  }
  if (/^\W*SET\s+(DEFAULT\s+)?ROLE\b/i.test(code)) throw denied('SET ROLE');
  if (/\bINTO OUTFILE\b/.test(code))
    throw ClickHouseError.of('INTO_OUTFILE_NOT_ALLOWED', 'INTO OUTFILE is not allowed.');
  if (/\bFROM INFILE\b/.test(code)) throw denied('FROM INFILE');
  if (kind !== 'INSERT' && /\bINSERT INTO\b/.test(code)) throw denied('INSERT in another statement');
  const format = formatOf(canonical)?.name;
  if (kind === 'INSERT' && format?.toLowerCase() !== data?.format.toLowerCase()) {
    throw ClickHouseError.of(
      'NOT_IMPLEMENTED',
      'The embedded ClickHouse takes INSERT INTO table [(columns)] FORMAT format or VALUES, with settings in the URL, and INSERT INTO table SELECT without input().',
    );
  }
  if (data !== undefined && format === 'Values' && /;\s*\S/.test(withoutTexts(data.bytes.toString('latin1'))))
    throw ClickHouseError.of('SYNTAX_ERROR', 'Syntax error (Multi-statements are not allowed).');
  if (role === 'analyst' && SETTINGS_CLAUSE.test(masked(canonical))) throw denied('SETTINGS of the analyst');
  const hidden = role === 'analyst' ? hiddenPart(code, database) : undefined;
  if (hidden !== undefined)
    throw ClickHouseError.of('ACCESS_DENIED', `Not enough privileges: ${hidden} is not for the analyst.`);
  const fixed = FIXED_SETTING.exec(code)?.[1];
  if (fixed !== undefined) throw denied(`The setting ${fixed}`);
  // Each name is checked, also without a call, because `APPLY(name)` calls a function by its name.
  for (const [name] of code.matchAll(/\w+/g))
    if (refusedFunctions.has(name.toLowerCase()))
      throw denied(`The name ${name}, a function that is not on the list of allowed ones,`);
  for (const [, name = ''] of code.matchAll(/(\w+)`?\(/g)) {
    const lower = name.toLowerCase();
    if (lower === 'disk' || (tableFunctions.has(lower) && !TABLE_FUNCTIONS_ON.includes(lower)))
      throw denied(`${name}()`);
  }
  return { sql: canonical, onlyReads: READING.includes(kind), format };
}

export function intoFile(canonical: string, path: string): string {
  if (!/^\W*(SELECT|WITH)\b/.test(canonical)) return canonical;
  return withClause(canonical, `INTO OUTFILE ${literal(path)} TRUNCATE`);
}

export function fromFile(canonical: string, path: string): string {
  return withClause(canonical, `FROM INFILE ${literal(path)} COMPRESSION 'none'`);
}

function withClause(canonical: string, clause: string): string {
  const at = formatOf(canonical)?.at ?? canonical.length;
  return `${canonical.slice(0, at)} ${clause}${canonical.slice(at)}`;
}

function formatOf(canonical: string): { readonly at: number; readonly name: string } | undefined {
  const found = /( FORMAT )([\w?]+)(?: SETTINGS [^()]*)?$/.exec(masked(canonical));
  if (found === null) return undefined;
  const [, before = '', name = ''] = found;
  const begin = found.index + before.length;
  return { at: found.index, name: canonical.slice(begin, begin + name.length).replaceAll('`', '') };
}

function masked(canonical: string): string {
  return canonical.replace(QUOTED, (token) => '?'.repeat(token.length));
}

/** Empties string literals; keeps names in backticks. */
function withoutTexts(sql: string): string {
  return sql.replace(QUOTED, (token) => (token.startsWith('`') ? token : "''"));
}

export function literal(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}
