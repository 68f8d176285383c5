// `make bench`: one section after the other, then the tables. A whole run also writes them into bench/README.md and README.md.
// QUICK=1, STARTS, ROUNDS and ONLY=<pattern of sections, groups and cases> are in settings.ts.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, createBench, isWanted } from './bench.js';
import { GROUPS, type GroupName, visit } from './cases.js';
import { describeMachine } from './machine.js';
import { RESULTS, runProgram } from './program.js';
import { writeReadmes } from './report/readme.js';
import { tables } from './report/tables.js';
import type { Results } from './results.js';
import { Entrant } from './sections/entrant.js';
import { measureFlusher } from './sections/flusher.js';
import { measureGrowth } from './sections/growth.js';
import { measureLatency } from './sections/latency.js';
import { measureQuestions } from './sections/questions.js';
import { measureGroup, runSlices, wantedCases } from './sections/slices.js';
import { missingProgram, requireProgram } from './servers/programs.js';
import { ROOT } from './servers/wishmeter.js';
import { readSettings } from './settings.js';
import { medianOf } from './slice.js';

/** Measures a part of the results; it may use those of earlier sections. */
type Section = (bench: Bench, found: Results) => Promise<Partial<Results>>;

const groupSections = (Object.keys(GROUPS) as GroupName[]).map((group): [string, Section] => [
  group,
  async (bench, { groups, leftOut }) => {
    const cases = wantedCases(bench, group);
    const able = cases.filter(({ server }) => missingProgram(server) === undefined);
    const unable = cases.filter((one) => !able.includes(one));
    const reasons = unable.map(({ name, server }) => `${name}: ${missingProgram(server)}`);
    for (const reason of reasons) bench.say(`left out: ${reason}`);
    return {
      groups: { ...groups, [group]: await measureGroup(bench, GROUPS[group], able) },
      leftOut: [...leftOut, ...reasons],
    };
  },
]);

const SECTIONS: ReadonlyMap<string, Section> = new Map([
  ...groupSections,
  ['latency', async (bench, found) => ({ latency: await measureLatency(bench, await peak(bench, found)) })],
  ['flusher', async (bench) => ({ flusher: await measureFlusher(bench) })],
  ['growth', async (bench) => ({ growth: await measureGrowth(bench) })],
  ['questions', async (bench) => ({ questions: await measureQuestions(bench) })],
]);

/** Visits per second of a closed loop; measured here if ONLY left them out. */
async function peak(bench: Bench, { groups }: Results): Promise<number> {
  const entrant = new Entrant(bench, visit);
  const measured = groups?.visits?.[visit.name]?.slices;
  if (measured === undefined) await runSlices(bench, [entrant]);
  const slices = measured ?? entrant.slices;
  return medianOf([slices], ({ perSecond }) => perSecond).value;
}

await runProgram('bench', async (dir) => {
  requireProgram('wrk');
  const settings = readSettings(process.env);
  const began = performance.now();
  const seconds = () => Math.round((performance.now() - began) / 1_000);
  const clock = () => `${Math.floor(seconds() / 60)}:${String(seconds() % 60).padStart(2, '0')}`;
  const bench = createBench(dir, settings, (sentence) => process.stderr.write(`${clock()}  ${sentence}\n`));
  let found: Results = {
    ...{ at: new Date().toISOString(), commit: commit(), machine: await describeMachine() },
    ...{ settings, minutes: 0, leftOut: [] },
  };
  const failures: string[] = [];
  mkdirSync(RESULTS, { recursive: true });
  const file = join(RESULTS, `${found.at.replaceAll(':', '-')}.json`);
  for (const [name, measure] of SECTIONS) {
    if (!isWanted(bench, name) && !(name in GROUPS && wantedCases(bench, name as GroupName).length > 0))
      continue;
    bench.say(name);
    try {
      found = { ...found, ...(await measure(bench, found)) };
    } catch (error) {
      // The other sections are worth having all the same.
      failures.push(`${name}: ${(error as Error).message}`);
      bench.say(`FAILED ${failures.at(-1)}`);
    }
    found = { ...found, minutes: seconds() / 60 };
    writeFileSync(file, `${JSON.stringify(found, undefined, 2)}\n`);
  }

  const verdict = failures.length === 0 ? 'All proofs hold' : `FAILED: ${failures.join('; ')}`;
  process.stdout.write(`\n${tables(found)}\n\n${verdict}, after ${clock()}. ${relative('.', file)}\n`);
  if (failures.length > 0) return 1;
  if (!settings.quick && settings.only === undefined) writeReadmes(found);
  return 0;
});

function commit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { encoding: 'utf8', cwd: fileURLToPath(ROOT) }).trim();
  const changed = git('status', '--porcelain', '--untracked-files=no') !== '';
  return `${git('rev-parse', '--short', 'HEAD')}${changed ? '+' : ''}`;
}
