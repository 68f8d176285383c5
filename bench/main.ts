// `make bench`: every section after the other, then the table. A full run also writes table and chart to bench/.
// QUICK=1, ROUNDS, SECONDS, ONLY=<pattern of sections and cases>: see settings.ts.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, createBench, isWanted } from './bench.js';
import { CASES, type Case } from './cases.js';
import { describeMachine } from './machine.js';
import { RESULTS, runProgram } from './program.js';
import { writeReadme } from './report/readme.js';
import { tables } from './report/tables.js';
import type { Results } from './results.js';
import { measureCrowd } from './sections/crowd.js';
import { measureFlusher } from './sections/flusher.js';
import { findKnee } from './sections/knee.js';
import { measureLatency } from './sections/latency.js';
import { runRound } from './sections/round.js';
import { measureStart } from './sections/start.js';
import { measureThroughput, wantedCases } from './sections/throughput.js';
import { measureViews } from './sections/views.js';
import { ROOT } from './servers/wishmeter.js';
import { readSettings } from './settings.js';

type Found = { -readonly [Section in keyof Results]: Results[Section] };

/** In this order; a section may build on what those before it found out. */
const SECTIONS: Readonly<Record<string, (bench: Bench, found: Found) => Promise<void>>> = {
  start: async (bench, found) => {
    found.start = await measureStart(bench);
  },
  throughput: async (bench, found) => {
    found.throughput = await measureThroughput(bench);
  },
  latency: async (bench, found) => {
    found.latency = await measureLatency(bench, await peakOf('visit', bench, found));
  },
  knee: async (bench, found) => {
    found.knee = await findKnee(bench, await peakOf('event', bench, found));
  },
  flusher: async (bench, found) => {
    found.flusher = await measureFlusher(bench);
  },
  crowd: async (bench, found) => {
    found.crowd = await measureCrowd(bench);
  },
  views: async (bench, found) => {
    found.views = await measureViews(bench);
  },
};

/** Requests per second in a closed loop; measured now where ONLY left it out. */
async function peakOf(name: string, bench: Bench, { throughput }: Found): Promise<number> {
  const known = throughput?.[name]?.perSecond;
  if (known !== undefined) return known;
  const one = CASES.find((candidate) => candidate.name === name) as Case;
  return (await runRound(bench, one)).perSecond;
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
    machine: describeMachine(),
    settings: kept,
  };
  for (const [name, measure] of Object.entries(SECTIONS)) {
    const wanted = isWanted(bench, name) || (name === 'throughput' && wantedCases(bench).length > 0);
    if (wanted) await measure(bench, found);
  }

  mkdirSync(RESULTS, { recursive: true });
  const file = join(RESULTS, `${found.at.replaceAll(':', '-')}.json`);
  writeFileSync(file, `${JSON.stringify(found, undefined, 2)}\n`);
  process.stdout.write(`\n${tables(found)}\n\nAll proofs true, after ${clock()}. ${relative('.', file)}\n`);
  if (!settings.quick && only === undefined) writeReadme(found);
  return 0;
});

function commit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { encoding: 'utf8', cwd: fileURLToPath(ROOT) }).trim();
  const changed = git('status', '--porcelain', '--untracked-files=no') !== '';
  return `${git('rev-parse', '--short', 'HEAD')}${changed ? '+' : ''}`;
}
