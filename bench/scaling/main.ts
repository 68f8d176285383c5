// `make bench-scaling`: deployments of 1, 2 and 3 masters and 1, 2 and 4 `serve` on this machine, in turn, and the sum of
// CPU that a visit takes in each, beside what docs/scaling.md's plan says. Machines differ, and so do hours: so both are
// ratios to the smallest deployment, slice by slice. QUICK=1 for a look.

import { createBench } from '../bench.js';
import { runProgram } from '../program.js';
import { Entrant, runStarts } from '../sections/slices.js';
import { readSettings } from '../settings.js';
import { cpuUs, medianOf, type Slice } from '../slice.js';
import { DEPLOYMENTS } from './cases.js';
import { cpuOfVisit } from './plan.js';

/** As for what is compared with another commit: all have the same. */
const VISITORS = 20_000;

await runProgram('bench-scaling', async (dir) => {
  const settings = { ...readSettings(process.env), visitors: VISITORS };
  const bench = createBench(dir, settings, (sentence) => process.stderr.write(`${sentence}\n`));
  const results = await runStarts(bench, () => DEPLOYMENTS.map((one) => new Entrant(bench, one)));
  const [smallest] = DEPLOYMENTS;
  const of = (name: string) => results[name] as NonNullable<(typeof results)[string]>;
  const base = of(smallest.name);
  const planned = (perCall = 1) => cpuOfVisit(perCall).serve + cpuOfVisit(perCall).redis;
  const sum = (slice: Slice) => cpuUs(slice, 'server', 'redis');
  const lines = DEPLOYMENTS.map(({ name, title }) => {
    const { slices, perCall = 1 } = of(name);
    const us = (part: 'server' | 'redis') =>
      medianOf([slices], (slice) => cpuUs(slice, part)).value.toFixed(1);
    const { value, isDisturbed } = medianOf([slices, base.slices], (a, b) => sum(a) / sum(b));
    const plan = planned(perCall) / planned(base.perCall);
    const cells = [title, perCall.toFixed(1), us('server'), us('redis'), value.toFixed(2), plan.toFixed(2)];
    return `| ${[...cells, (value / plan).toFixed(2)].join(' | ')}${isDisturbed ? ' *' : ''} |`;
  });
  process.stdout.write(
    '| deployment | per Redis call | server µs | Redis µs | sum, to the first | plan | measured / plan |\n' +
      `| :-- | --: | --: | --: | --: | --: | --: |\n${lines.join('\n')}\n`,
  );
  return 0;
});
