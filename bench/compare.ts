// `make bench-compare BASE=<commit>`: this tree against another commit, in slices of a second in turn, by CPU per
// operation. This tree takes part twice: the distance between two equal entrants is the noise. Exits with 1 if this tree
// takes more CPU than the other by more than the noise.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Bench, createBench, isWanted } from './bench.js';
import { type Case, COMPARED } from './cases.js';
import { runProgram } from './program.js';
import { Entrant } from './sections/entrant.js';
import { runStarts } from './sections/slices.js';
import { requireProgram } from './servers/programs.js';
import { ROOT } from './servers/wishmeter.js';
import { readSettings } from './settings.js';
import { cpuUs, medianOf, type Series, type Slice } from './slice.js';
import { noiseOfMedian } from './statistics.js';

/** A smaller difference is not worth an alarm, however quiet the machine is. */
const LEAST_BAND = 0.02;

await runProgram('bench-compare', async (dir) => {
  const [base = ''] = process.argv.slice(2);
  requireProgram('wrk');
  if (base === '') throw new Error('make bench-compare BASE=<commit>');
  const say = (sentence: string) => process.stderr.write(`${sentence}\n`);
  const settings = readSettings(process.env);
  const bench = createBench(dir, { ...settings, starts: Math.max(2, settings.starts) }, say);
  say(`building ${base}`);
  const other = checkOut(base, join(dir, 'base'));
  let slower = false;
  for (const one of COMPARED.filter(({ name }) => isWanted(bench, name)))
    slower = (await compare(bench, one, other)) || slower;
  return slower ? 1 : 0;
});

/** True if this tree takes more CPU than the other one by more than the noise. */
async function compare(bench: Bench, one: Case, other: URL): Promise<boolean> {
  const results = await runStarts(bench, () => [
    new Entrant(bench, one, 'this tree'),
    new Entrant(bench, one, 'base', other),
    new Entrant(bench, one, 'itself', ROOT),
  ]);
  const [ours, theirs, itself] = Object.values(results).map(({ slices }) => slices) as [
    Series,
    Series,
    Series,
  ];
  const cost = (slice: Slice) => cpuUs(slice, 'server', 'redis');
  // Two processes differ for as long as they live, so each start is one sample.
  const ratios = itself.flatMap((slice, i) => cost(slice) / cost(ours[i] as Slice));
  const band = Math.max(LEAST_BAND, noiseOfMedian(ratios, bench.settings.starts));
  const { value, isDisturbed } = medianOf([ours, theirs], (a, b) => cost(a) / cost(b));
  const verdict = value > 1 + band ? 'WORSE' : value < 1 - band ? 'better' : 'the same';
  const percent = (share: number) => `${share >= 0 ? '+' : ''}${(share * 100).toFixed(1)} %`;
  const us = (series: Series) => medianOf([series], cost).value.toFixed(1);
  process.stdout.write(
    `${one.title}: CPU of server and Redis ${us(ours)} µs against ${us(theirs)}: ${percent(value - 1)} ` +
      `(noise ± ${(band * 100).toFixed(1)} %${isDisturbed ? ', disturbed' : ''}): ${verdict}\n`,
  );
  return verdict === 'WORSE';
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
