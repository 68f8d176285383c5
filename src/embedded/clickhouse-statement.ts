// What ClickHouse has no grant for, judged on a statement's canonical text: ClickHouse's own parser has read it and
// written it again, without comments, with one way to quote. So nothing hides behind comments, escapes or case.
//
// That is: kinds of statements, files that chDB itself writes or reads as a client would (INTO OUTFILE, FROM INFILE),
// scalar functions that reach out, and, as a second line behind the grants, table functions.

import { ClickHouseError } from './clickhouse-errors.js';
import type { Role } from './clickhouse-users.js';

const READING = ['SELECT', 'WITH', 'SHOW', 'DESCRIBE', 'EXISTS', 'EXPLAIN'];
const KINDS: Readonly<Record<Role, ReadonlySet<string>>> = {
  analyst: new Set(READING),
  service: new Set([
    ...READING,
    ...[
      'INSERT',
      'CREATE',
      'REPLACE',
      'ALTER',
      'DROP',
      'UNDROP',
      'TRUNCATE',
      'OPTIMIZE',
      'RENAME',
      'EXCHANGE',
    ],
    ...['DELETE', 'UPDATE', 'CHECK', 'USE', 'SET', 'SYSTEM', 'KILL'],
  ]),
};

/** Scalar functions that read files, load libraries or call services. chDB has no grant for them: `file` reads any file. */
const FUNCTIONS_OFF =
  /\b(file|catboostEvaluate|hasColumnInTable|getClientHTTPHeader|ai(Classify|Embed|Extract|Generate|Translate))\b/;

/** Table functions that stay within the database. All others that this build of chDB has are off. */
const TABLE_FUNCTIONS_ON = new Set([
  ...[
    'numbers',
    'numbers_mt',
    'zeros',
    'zeros_mt',
    'primes',
    'generateseries',
    'generate_series',
    'generaterandom',
  ],
  ...['values', 'sqlstandardvalues', 'view', 'null', 'merge', 'format', 'input'],
]);

/**
 * @param canonical the statement as formatQuerySingleLine writes it
 * @param tableFunctions names of all that this build has, in lower case
 * @returns whether it only reads
 * @throws ClickHouseError where the role may not run it
 */
export function judge(canonical: string, role: Role, tableFunctions: ReadonlySet<string>): boolean {
  const code = withoutTexts(canonical);
  const denied = (what: string) =>
    ClickHouseError.of('ACCESS_DENIED', `${what} is off in the embedded ClickHouse.`);
  const kind = /[A-Za-z]+/.exec(code)?.[0]?.toUpperCase() ?? '';
  if (!KINDS[role].has(kind)) {
    throw ClickHouseError.of('ACCESS_DENIED', `Not enough privileges: ${role} may not run ${kind}.`);
  }
  if (/^\W*SET\s+(DEFAULT\s+)?ROLE\b/i.test(code)) throw denied('SET ROLE');
  if (/\bINTO OUTFILE\b/.test(code))
    throw ClickHouseError.of('INTO_OUTFILE_NOT_ALLOWED', 'INTO OUTFILE is not allowed.');
  if (/\bFROM INFILE\b/.test(code)) throw denied('FROM INFILE');
  // Data may follow it, which the parser does not read and chDB takes for further statements.
  if (kind !== 'INSERT' && /\bINSERT INTO\b/.test(code)) throw denied('INSERT in another statement');
  const off = FUNCTIONS_OFF.exec(code)?.[0];
  if (off !== undefined) throw denied(`The name ${off}, a function that reaches out of the database,`);
  for (const [, name = ''] of code.matchAll(/(\w+)`?\(/g)) {
    const lower = name.toLowerCase();
    if (lower === 'disk' || (tableFunctions.has(lower) && !TABLE_FUNCTIONS_ON.has(lower)))
      throw denied(`${name}()`);
  }
  return READING.includes(kind);
}

/** Names in backticks may hold quotes, too: they are read as names, and kept. */
function withoutTexts(canonical: string): string {
  return canonical.replace(/`(?:\\.|[^`\\])*`|'(?:\\.|[^'\\])*'/gs, (token) =>
    token.startsWith('`') ? token : "''",
  );
}
