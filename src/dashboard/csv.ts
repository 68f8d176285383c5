// Rows as CSV (RFC 4180) that spreadsheets open without running anything: a text that would be read as a formula gets an
// apostrophe before it. Titles and handles come from storefronts.

const FORMULA = /^[=+\-@\t\r]/;

/** @param rows of one shape; the first row is that of names */
export function csvOf(names: readonly string[], rows: readonly (readonly unknown[])[]): string {
  return [names, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string')
    return quoted(typeof value === 'object' ? JSON.stringify(value) : String(value));
  return quoted(FORMULA.test(value) ? `'${value}` : value);
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
