// Writes one run into bench/README.md, as tables, and into README.md, as a short one, between their markers.

import { readFileSync, writeFileSync } from 'node:fs';
import type { Results } from '../results.js';
import { ROOT } from '../servers/wishmeter.js';
import { summary } from './summary.js';
import { tables } from './tables.js';

const BEGIN = '<!-- make bench writes from here -->';
const END = '<!-- to here -->';

/** @throws if a file has lost its markers */
export function writeReadmes(results: Results): void {
  for (const [name, text] of [
    ['bench/README.md', tables(results)],
    ['README.md', summary(results)],
  ] as const) {
    const file = new URL(name, ROOT);
    writeFileSync(file, replaced(name, readFileSync(file, 'utf8'), text));
  }
}

/** @throws if the document has lost its markers */
export function replaced(name: string, document: string, text: string): string {
  const [begin, end] = [document.indexOf(BEGIN), document.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`${name} has lost its markers`);
  return `${document.slice(0, begin + BEGIN.length)}\n\n${text}\n\n${document.slice(end)}`;
}
