// Limits a panel to its largest rows and one row for all others, because storefronts choose the values.

const LARGEST = 20;

/**
 * Wraps a statement. In its last row, which stands for all other rows, `word` is NULL.
 * @param word column that names a row @param by column that says which rows are largest
 * @param columns each other column's name and aggregate
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
