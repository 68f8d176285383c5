// Generated tables in documents, between `<!-- name -->` and `<!-- /name -->`.

import { readFileSync, writeFileSync } from 'node:fs';
import type { Test } from 'tap';

/** UPDATE_DOCS=1 writes the documents again. */
export const UPDATE = process.env['UPDATE_DOCS'] !== undefined;

export function checkSection(t: Test, file: string, name: string, expected: string): void {
  const [open, close] = [`<!-- ${name} -->\n`, `\n<!-- /${name} -->`];
  const text = readFileSync(file, 'utf8');
  const [from, to] = [text.indexOf(open) + open.length, text.indexOf(close)];
  if (UPDATE) writeFileSync(file, text.slice(0, from) + expected + text.slice(to));
  else t.equal(text.slice(from, to), expected, `${file}, ${name}: UPDATE_DOCS=1 writes it anew`);
}
