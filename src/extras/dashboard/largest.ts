// Limits a panel to its largest rows and one row for all others, because storefronts choose the values.

const LARGEST = 20;

/**
 * The last row, for all others, has NULL in `word`.
 * @param word column that names a row @param by column to compare
 * @param columns aggregate of each other column
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

export const summed = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, `sum(named.${name})`]));
