// `make bench-compare BASE=<commit>`: this tree against another commit, round by round in turn. First this tree
// against itself, which tells how far apart two equal things come out here and now: the noise band. Exits with 1
// where this tree is slower, or takes more CPU, by more than that.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Bench, createBench, isWanted } from './bench.js';
import { CASES, type Case } from './cases.js';
import { runProgram } from './program.js';
import { type Round, runRound } from './sections/round.js';
import { ROOT } from './servers/wishmeter.js';
import { readSettings } from './settings.js';
import { median, noiseOfMedian } from './statistics.js';

const COMPARED = ['visit', 'visit-cold', 'read', 'event', 'item-add'];
/** Fewer than for figures that are quoted: both sides have the same. */
const VISITORS = 20_000;
/** What is smaller than this is not worth an alarm, however quiet the machine is. */
const LEAST_BAND = 0.02;

/** A figure of a round, larger is better. */
const FIGURES = {
  'requests/s': ({ perSecond }: Round) => perSecond,
  'requests per CPU second of the server': ({ cpu, answers }: Round) => answers / (cpu.server ?? 0),
};

/** Rounds of the two sides, pair by pair. */
type Pair = readonly [Round, Round];

await runProgram('bench-compare', async (dir) => {
  const [base = ''] = process.argv.slice(2);
  if (base === '') throw new Error('make bench-compare BASE=<commit>');
  const say = (sentence: string) => process.stderr.write(`${sentence}\n`);
  const bench = createBench(dir, { ...readSettings(process.env), visitors: VISITORS }, say);
  say(`building ${base}`);
  const other = checkOut(base, join(dir, 'base'));
  let slower = false;
  for (const one of CASES.filter(({ name }) => COMPARED.includes(name) && isWanted(bench, name)))
    slower = (await compare(bench, one, other)) || slower;
  return slower ? 1 : 0;
});

/** Whether this tree is slower than the other one by more than the noise. */
async function compare(bench: Bench, one: Case, other: URL): Promise<boolean> {
  const itself = await pairs(bench, one, ROOT);
  const against = await pairs(bench, one, other);
  let worse = false;
  for (const [figure, of] of Object.entries(FIGURES)) {
    const ratios = (list: readonly Pair[]) => list.map(([ours, theirs]) => of(ours) / of(theirs));
    const band = Math.max(LEAST_BAND, noiseOfMedian(ratios(itself)));
    const ratio = median(ratios(against));
    const verdict = ratio < 1 - band ? 'WORSE' : ratio > 1 + band ? 'better' : 'the same';
    worse ||= verdict === 'WORSE';
    const percent = (share: number) => `${share >= 0 ? '+' : ''}${(share * 100).toFixed(1)} %`;
    process.stdout.write(
      `${one.title}, ${figure}: ${percent(ratio - 1)} (noise ± ${(band * 100).toFixed(1)} %): ${verdict}\n`,
    );
  }
  return worse;
}

async function pairs(bench: Bench, one: Case, theirs: URL): Promise<Pair[]> {
  const list: Pair[] = [];
  for (let round = 0; round < bench.settings.rounds; round++) {
    // Who goes first has nothing to do with who is better.
    const first = round % 2;
    const a = await runRound(bench, one, first === 0 ? ROOT : theirs);
    const b = await runRound(bench, one, first === 0 ? theirs : ROOT);
    list.push(first === 0 ? [a, b] : [b, a]);
    const [us, them] = (list.at(-1) as Pair).map(({ perSecond }) => Math.round(perSecond));
    bench.say(
      `${one.name}, round ${round + 1}: ${us}/s against ${them}/s${theirs === ROOT ? ' of itself' : ''}`,
    );
  }
  return list;
}

/** The commit in a worktree of its own, built. @throws where it is none, or has no `serve` */
function checkOut(commit: string, tree: string): URL {
  // Before the folder that it is in goes.
  process.prependListener('exit', () => existsSync(tree) && git('worktree', 'remove', '--force', tree));
  git('worktree', 'add', '--quiet', '--detach', tree, commit);
  const here = fileURLToPath(ROOT);
  const lock = (root: string) => readFileSync(join(root, 'package-lock.json'), 'utf8');
  if (lock(here) === lock(tree)) symlinkSync(join(here, 'node_modules'), join(tree, 'node_modules'));
  else run(tree, 'npm', 'ci', '--ignore-scripts', '--no-progress', '--loglevel=error');
  try {
    run(tree, join(tree, 'node_modules/.bin/tsc'));
  } catch {
    // Types may be wrong in its tests; what counts is whether it runs.
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
