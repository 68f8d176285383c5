// `make bench-compare BASE=<commit>`: this tree against another commit, in slices of a second in turn, by CPU per
// operation: the ratio of each start, since two processes of one program differ for as long as they live.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Bench, createBench, isWanted } from './bench.js';
import { type Case, COMPARED } from './cases.js';
import { runProgram } from './program.js';
import { Entrant } from './sections/entrant.js';
import { runSlices } from './sections/slices.js';
import { requireProgram } from './servers/programs.js';
import { ROOT } from './servers/wishmeter.js';
import { readSettings } from './settings.js';
import { costUs, medianOf } from './slice.js';

await runProgram('bench-compare', async (dir) => {
  const [base = ''] = process.argv.slice(2);
  requireProgram('wrk');
  if (base === '') throw new Error('make bench-compare BASE=<commit>');
  const say = (sentence: string) => process.stderr.write(`${sentence}\n`);
  const settings = readSettings(process.env);
  const bench = createBench(dir, { ...settings, starts: Math.max(3, settings.starts) }, say);
  say(`building ${base}`);
  const other = checkOut(base, join(dir, 'base'));
  for (const one of COMPARED.filter(({ name }) => isWanted(bench, name))) await compare(bench, one, other);
  return 0;
});

async function compare(bench: Bench, one: Case, other: URL): Promise<void> {
  const ratios: number[] = [];
  for (let start = 0; start < bench.settings.starts; start++) {
    const entrants = [new Entrant(bench, one), new Entrant(bench, one, 'base', other)] as const;
    await runSlices(bench, entrants);
    ratios.push(medianOf([entrants[0].slices, entrants[1].slices], (a, b) => costUs(a) / costUs(b)).value);
  }
  const shown = ratios.map((ratio) => ratio.toFixed(3)).join(', ');
  process.stdout.write(`${one.title}: CPU of server and Redis, this tree's / the base's: ${shown}\n`);
}

/** The commit in a worktree of its own, built. @throws if it is no commit or does not build */
function checkOut(commit: string, tree: string): URL {
  // Before runProgram removes its folder.
  process.prependListener('exit', () => existsSync(tree) && git('worktree', 'remove', '--force', tree));
  git('worktree', 'add', '--quiet', '--detach', tree, commit);
  const here = fileURLToPath(ROOT);
  const lock = (root: string) => readFileSync(join(root, 'package-lock.json'), 'utf8');
  if (lock(here) === lock(tree)) symlinkSync(join(here, 'node_modules'), join(tree, 'node_modules'));
  else run(tree, 'npm', 'ci', '--ignore-scripts', '--no-progress', '--loglevel=error');
  try {
    run(tree, join(tree, 'node_modules/.bin/tsc'));
  } catch {
    // Only its tests may have wrong types: the check below tells.
  }
  if (!existsSync(join(tree, 'dist/src/main.js'))) throw new Error(`${commit} does not build`);
  return pathToFileURL(`${tree}/`);
}

function git(...args: string[]): void {
  run(fileURLToPath(ROOT), 'git', ...args);
}

function run(cwd: string, file: string, ...args: string[]): void {
  execFileSync(file, args, { cwd, stdio: ['ignore', 'ignore', 'pipe'] });
}
