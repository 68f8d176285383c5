// Writes CSV (RFC 4180). Texts come from storefronts, so a text that a spreadsheet would run as a formula gets an
// apostrophe before it.

/** Matches a formula, also after invisible characters, which spreadsheets may ignore. */
const FORMULA = /^[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]*[=+\-@]|^[\t\r\n]/u;

export function csvOf(names: readonly string[], rows: readonly (readonly unknown[])[]): string {
  return [names, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string')
    return quoted(typeof value === 'object' ? JSON.stringify(value) : String(value));
  // NFKC, because East Asian spreadsheets read full-width signs as plain ones.
  return quoted(FORMULA.test(value.normalize('NFKC')) ? `'${value}` : value);
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
