// Bounds panels whose words come from storefronts: the largest rows, and one row for all others.

/** Maximum rows of a panel, including the one for all others. */
const LARGEST = 20;

/**
 * A statement with the largest rows of `sql`. The row of all others has NULL as its word.
 * @param word the column that names a row @param by the column to compare
 * @param columns aggregate of each other column; commas only within brackets
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

/** For columns that add up. */
export const summed = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, `sum(named.${name})`]));
