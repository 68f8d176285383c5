// Panels of shares show the largest words of a column and all others as one row, so that neither the answer nor the page grows
// with what is sent.

/** Rows that such a panel has at most, with that of all others. */
const LARGEST = 20;

/**
 * A statement with the largest rows of another one. The row of all others has NULL as its word.
 * @param word the column that names a row @param by the column that is compared @param columns what each other column is over
 *   the rows of all others; an expression without commas outside of brackets
 */
export function largestOf(
  sql: string,
  word: string,
  by: string,
  columns: Readonly<Record<string, string>>,
): string {
  const selected = Object.entries(columns).map(([name, total]) => `${total} AS ${name}`);
  return `SELECT if(place < ${LARGEST}, named.${word}, NULL) AS ${word}, ${selected.join(', ')}
FROM
(
    SELECT *, row_number() OVER (ORDER BY ${by} DESC, ${word}) AS place
    FROM
    (
${sql.replace(/^/gm, '        ')}
    )
) AS named
GROUP BY ${word}
ORDER BY isNull(${word}), ${by} DESC, ${word}`;
}

/** Of a column that may be added up. */
export const summed = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, `sum(named.${name})`]));
