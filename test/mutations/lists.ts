// The lists of mutations: faults put into what is not a test on purpose, each with the tests that must notice it.
// One JSON file per topic in this folder; main.ts applies them, lists.test.ts checks that they still fit the code.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One fault. */
export interface Mutation {
  /** The promise that it breaks; unique among all lists. */
  readonly name: string;
  /** From the root of the tree; see MUTABLE. */
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly text: string;
  readonly replacement: string;
  /** Compiled test files, `dist/test/….test.js` or `….campaign.js`: at least one must fail. */
  readonly tests: readonly string[];
}

/** Tests and what is generated are left alone. */
const MUTABLE = /^(src|lua|bench|deploy|docs|\.ci)\/|^(Makefile|package\.json)$/;

const LISTS = 'test/mutations';

/** Every list's mutations in the order of the files' names. @throws where a file is not JSON */
export function readMutations(root: string): readonly Mutation[] {
  const files = readdirSync(join(root, LISTS)).filter((file) => file.endsWith('.json'));
  return files.toSorted().flatMap((file) => JSON.parse(readFileSync(join(root, LISTS, file), 'utf8')));
}

/** Why this mutation can't be tried on the tree as it is; undefined where it can. */
export function faultOf(
  root: string,
  { name, file, text, replacement, tests }: Mutation,
): string | undefined {
  if (!name) return `a mutation of ${file} has no name`;
  if (!MUTABLE.test(file) || !existsSync(join(root, file))) return `${name}: ${file} is not there`;
  if (text === replacement) return `${name}: text and replacement are the same`;
  const found = readFileSync(join(root, file), 'utf8').split(text).length - 1;
  if (found !== 1) return `${name}: its text is ${found} times in ${file}, not once`;
  if (!(tests.length > 0)) return `${name}: no test is named`;
  for (const test of tests) {
    const source = test.replace(/^dist\/(test\/.+\.(test|campaign))\.js$/, '$1.ts');
    if (source === test || !existsSync(join(root, source))) return `${name}: ${test} is not there`;
  }
  return undefined;
}
