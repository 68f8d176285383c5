// Writes a run into bench/README.md, between its markers, and the chart beside it.

import { readFileSync, writeFileSync } from 'node:fs';
import type { Results } from '../results.js';
import { chart } from './chart.js';
import { tables } from './tables.js';

const FOLDER = new URL('../../../bench/', import.meta.url);
const BEGIN = '<!-- make bench writes from here -->';
const END = '<!-- to here -->';

/** @throws where the markers are missing */
export function writeReadme(results: Results): void {
  const file = new URL('README.md', FOLDER);
  const text = readFileSync(file, 'utf8');
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error('bench/README.md has lost its markers');
  writeFileSync(file, `${text.slice(0, begin + BEGIN.length)}\n\n${tables(results)}\n\n${text.slice(end)}`);
  writeFileSync(new URL('chart.svg', FOLDER), chart(results));
}
