// docs/scaling.md's tables are the sums of bench/scaling/plan.ts, and the sums hold where they can be done by hand.
// UPDATE_DOCS=1 writes the tables anew.

import t from 'tap';
import { DEPLOYMENTS } from '../../bench/scaling/cases.js';
import { carriesTable, cpuOfVisit, needsOf, planTable, SIZES } from '../../bench/scaling/plan.js';
import { checkSection } from '../harness/sections.js';

t.test('the tables of docs/scaling.md are the sums', async (t) => {
  checkSection(t, 'docs/scaling.md', 'carries', carriesTable());
  checkSection(t, 'docs/scaling.md', 'plan', planTable());
});

t.test('a visit alone pays for its call; among many it does not', async (t) => {
  t.same(cpuOfVisit(1), { serve: 157, redis: 86.5 });
  t.same(cpuOfVisit(10), { serve: 40, redis: 14.5 });
});

t.test('ten times the visits need ten times the cores, and never fewer processes than two', async (t) => {
  const [small, large] = [
    needsOf({ visits: 1_000, visitors: 1e6 }),
    needsOf({ visits: 10_000, visitors: 1e6 }),
  ];
  for (const part of ['serve', 'redis', 'flush', 'clickhouse'] as const)
    t.ok(Math.abs(large.cores[part] / small.cores[part] - 10) < 1e-9, part);
  t.match(small, { serve: 2, flush: 2, masters: 1 });
  t.equal(large.memory, small.memory, 'memory is that of the visitors');
  t.ok(
    Math.abs(small.memory - 0.346) < 1e-9,
    'a million visitors with ten products: 121 and nine times 25 bytes',
  );
  for (const size of SIZES) {
    const { cores, serve, masters, flush } = needsOf(size);
    t.ok(
      cores.serve / serve <= 0.6 && cores.redis / masters <= 0.6 && cores.flush / flush <= 0.6,
      `${size.visits}`,
    );
  }
});

t.test('the simulation has 1, 2 and 3 masters and 1, 2 and 4 `serve`, each combination once', async (t) => {
  t.same([...new Set(DEPLOYMENTS.map(({ masters }) => masters))].sort(), [1, 2, 3]);
  t.same([...new Set(DEPLOYMENTS.map(({ workers }) => workers))].sort(), [1, 2, 4]);
  t.equal(new Set(DEPLOYMENTS.map(({ name }) => name)).size, DEPLOYMENTS.length);
  t.match(DEPLOYMENTS[0], { masters: 1, workers: 1 });
});
