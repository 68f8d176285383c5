// `make bench`: every section after the other, then the table. A full run also writes table and chart to bench/.
// QUICK=1, ROUNDS, SECONDS, ONLY=<pattern of sections, groups and cases>: see settings.ts.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, createBench, isWanted } from './bench.js';
import { type Case, event, GROUPS, type GroupName, visit } from './cases.js';
import { describeMachine } from './machine.js';
import { RESULTS, runProgram } from './program.js';
import { writeReadme } from './report/readme.js';
import { tables } from './report/tables.js';
import type { Results } from './results.js';
import { measureDeliveries } from './sections/deliveries.js';
import { measureFlusher } from './sections/flusher.js';
import { measureGrowth } from './sections/growth.js';
import { findKnee } from './sections/knee.js';
import { measureLatency } from './sections/latency.js';
import { measureRights } from './sections/rights.js';
import { Entrant, measureGroup, runSlices, wantedCases } from './sections/slices.js';
import { measureStart } from './sections/start.js';
import { measureViews } from './sections/views.js';
import { measureVisitLog } from './sections/visit-log.js';
import { ROOT } from './servers/wishmeter.js';
import { readSettings } from './settings.js';
import { medianOf } from './slice.js';

type Found = { -readonly [Section in keyof Results]: Results[Section] };

type Sections = Readonly<Record<string, (bench: Bench, found: Found) => Promise<void>>>;

const ofGroups = (Object.keys(GROUPS) as GroupName[]).map((group) => [
  group,
  async (bench: Bench, found: Found) => {
    found.groups = { ...found.groups, [group]: await measureGroup(bench, group) };
  },
]);

/** In this order; a section may build on what those before it found out. */
const SECTIONS: Sections = {
  start: async (bench, found) => {
    found.start = await measureStart(bench);
  },
  ...Object.fromEntries(ofGroups),
  latency: async (bench, found) => {
    found.latency = await measureLatency(bench, await peakOf(visit, bench, found));
  },
  knee: async (bench, found) => {
    found.knee = await findKnee(bench, await peakOf(event, bench, found));
  },
  flusher: async (bench, found) => {
    found.flusher = await measureFlusher(bench);
  },
  'visit-log': async (bench, found) => {
    found.visitLog = await measureVisitLog(bench);
  },
  deliveries: async (bench, found) => {
    found.deliveries = await measureDeliveries(bench);
  },
  growth: async (bench, found) => {
    found.growth = await measureGrowth(bench);
  },
  rights: async (bench, found) => {
    found.rights = await measureRights(bench);
  },
  views: async (bench, found) => {
    found.views = await measureViews(bench);
  },
};

/** Requests per second in a closed loop; measured now where ONLY left it out. */
async function peakOf(one: Case, bench: Bench, { groups = {} }: Found): Promise<number> {
  const [known] = Object.values(groups).flatMap((group) => group[one.name] ?? []);
  const { slices } = known ?? (await runSlices(bench, [new Entrant(bench, one)]))[one.name] ?? { slices: [] };
  return medianOf([slices], ({ perSecond }) => perSecond).value;
}

await runProgram('bench', async (dir) => {
  const settings = readSettings(process.env);
  const began = performance.now();
  const clock = () => {
    const seconds = Math.round((performance.now() - began) / 1_000);
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  };
  const bench = createBench(dir, settings, (sentence) => process.stderr.write(`${clock()}  ${sentence}\n`));
  const { only, rows: _rows, ...kept } = settings;
  const found: Found = {
    at: new Date().toISOString(),
    commit: commit(),
    machine: await describeMachine(),
    settings: kept,
  };
  const failures: string[] = [];
  mkdirSync(RESULTS, { recursive: true });
  const file = join(RESULTS, `${found.at.replaceAll(':', '-')}.json`);
  for (const [name, measure] of Object.entries(SECTIONS)) {
    if (!isWanted(bench, name) && !(name in GROUPS && wantedCases(bench, name as GroupName).length > 0))
      continue;
    try {
      await measure(bench, found);
    } catch (error) {
      // The rest is worth having all the same.
      failures.push(`${name}: ${(error as Error).message}`);
      bench.say(`FAILED ${failures.at(-1)}`);
    }
    writeFileSync(file, `${JSON.stringify(found, undefined, 2)}\n`);
  }

  const verdict = failures.length === 0 ? 'All proofs true' : `FAILED: ${failures.join('; ')}`;
  process.stdout.write(`\n${tables(found)}\n\n${verdict}, after ${clock()}. ${relative('.', file)}\n`);
  if (failures.length > 0) return 1;
  if (!settings.quick && only === undefined) writeReadme(found);
  return 0;
});

function commit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { encoding: 'utf8', cwd: fileURLToPath(ROOT) }).trim();
  const changed = git('status', '--porcelain', '--untracked-files=no') !== '';
  return `${git('rev-parse', '--short', 'HEAD')}${changed ? '+' : ''}`;
}
