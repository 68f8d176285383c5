// Rows as CSV (RFC 4180) that spreadsheets open without running anything: a text that may be read as a formula gets an
// apostrophe before it. Titles and handles come from storefronts.

/** After characters that are not seen (controls, spaces, what fonts ignore), which spreadsheets may drop. */
const FORMULA = /^[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]*[=+\-@]|^[\t\r\n]/u;

/** @param rows of one shape; the first row is that of names */
export function csvOf(names: readonly string[], rows: readonly (readonly unknown[])[]): string {
  return [names, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string')
    return quoted(typeof value === 'object' ? JSON.stringify(value) : String(value));
  // Spreadsheets of East Asia take full-width signs for the plain ones, which NFKC makes of them.
  return quoted(FORMULA.test(value.normalize('NFKC')) ? `'${value}` : value);
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
