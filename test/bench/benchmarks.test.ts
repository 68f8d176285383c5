// The benchmarks' cases and goals fit each other, and disturbed slices are left out. (bench/proofs checks each run.)

import t from 'tap';
import { GROUPS, type Group, type GroupName } from '../../bench/cases.js';
import type { Disturbance } from '../../bench/cpu.js';
import { GOALS, measuredFigures } from '../../bench/figures.js';
import { replaced } from '../../bench/report/readme.js';
import { summary } from '../../bench/report/summary.js';
import { tables } from '../../bench/report/tables.js';
import type { Results } from '../../bench/results.js';
import { readSettings } from '../../bench/settings.js';
import { isDisturbed, medianOf } from '../../bench/slice.js';

const names = Object.keys(GROUPS) as GroupName[];

function allOnes(): Results {
  const disturbance = { stolen: 0, others: 0 };
  const cpu = { server: 1, redis: 1 };
  const answered = { operations: 1, perSecond: 1, p50Ms: 1, p99Ms: 1, maxMs: 1, generatorLateP99Ms: 1 };
  const slices = [{ ...answered, cpu, disturbance }];
  const of = (list: readonly { readonly name: string; readonly title: string }[]) =>
    Object.fromEntries(list.map(({ name, title }) => [name, { title, slices }]));
  const crowds = ['few', 'many'].map((name) => ({ name, title: `${name} guests` }));
  return {
    ...{ at: '2026-01-02T03:04:05Z', commit: 'abc', minutes: 1, settings: readSettings({}), leftOut: [] },
    machine: { cpu: '', cores: 2, memoryGb: 1, kernel: '', versions: {} },
    groups: Object.fromEntries(names.map((group) => [group, of(GROUPS[group].cases)])),
    latency: { rate: 1, runs: { bare: slices, visit: slices } },
    flusher: { rows: 1, lineBytes: 1, redisBytes: 1, flushed: 1, direct: 1, cpu, diskBytes: 54 },
    growth: { cases: of(crowds), guestBytes: 165, hashBytes: 165 },
    questions: { events: 1, visits: 1, ms: { most_wished: 7 } },
  } as unknown as Results;
}

t.test('every goal is measured by a whole run, and shown with every case', async (t) => {
  const results = allOnes();
  const measured = measuredFigures(results);
  t.same(
    measured.map(({ title }) => title),
    Object.values(GOALS).map(({ title }) => title),
  );
  t.same(new Set(measured.map(({ value }) => value)), new Set(['1.00']));
  const reached = measured.filter((figure) => figure.reached).map(({ reach }) => reach[0]);
  t.same(new Set(reached), new Set(['≤', '≥']), 'a ratio of 1 reaches some of both kinds, and not all');
  t.ok(reached.length < measured.length);
  const shown = tables(results);
  for (const { title } of names.flatMap((group): Group['cases'] => GROUPS[group].cases))
    t.ok(shown.includes(`| ${title} |`), title);
  t.match(shown, '| most_wished | 7 |');
});

t.test('a run is written between the markers of a document, with its date and commit', async (t) => {
  const text = summary(allOnes());
  t.match(
    text,
    /^\| 2026-01-02, commit abc \|.* 1\.00 times \|.* 165 bytes in Redis .* 54 bytes on disk .*\|$/s,
  );
  t.equal(text.split('\n').length, 2 + 4, 'a head and four rows');
  t.notMatch(text, '–', 'every figure of it is measured by a whole run');
  t.match(summary({ ...allOnes(), groups: {} }), '– times', 'and a missing one is a dash');
  const document = 'a\n<!-- make bench writes from here -->\n\nold\n\n<!-- to here -->\nz\n';
  t.equal(replaced('x', document, 'new'), document.replace('old', 'new'));
  t.throws(() => replaced('x.md', 'a\n', 'new'), /x\.md has lost its markers/);
});

function measured(value: number, { stolen = 0, others = 0 }: Partial<Disturbance> = {}) {
  return { value, disturbance: { stolen, others } };
}

t.test('a slice is disturbed if more than 2 % was stolen or others took more than 15 %', async (t) => {
  t.notOk(isDisturbed(measured(1, { stolen: 0.02, others: 0.15 })));
  t.ok(isDisturbed(measured(1, { stolen: 0.021 })));
  t.ok(isDisturbed(measured(1, { others: 0.151 })));
  t.ok(isDisturbed({ ...measured(1), refused: 1 }), 'or the server refused a request');
});

t.test('a ratio compares slices of one round, and only undisturbed ones', async (t) => {
  const ours = [measured(10), measured(500), measured(900), measured(40)];
  const theirs = [measured(5), measured(10, { others: 0.5 }), measured(1, { stolen: 0.5 }), measured(10)];
  const ratio = medianOf([ours, theirs], (a, b) => a.value / b.value);
  t.same(ratio, { value: 3, isDisturbed: false }, 'of 2 and 4');
});

t.test('a figure takes all slices and is marked if fewer than a third are undisturbed', async (t) => {
  const noisy = { others: 0.5 };
  const third = [measured(1), measured(2, noisy), measured(9, noisy)];
  t.same(
    medianOf([third], ({ value }) => value),
    { value: 1, isDisturbed: false },
  );
  t.same(
    medianOf([[...third, measured(10, noisy)]], ({ value }) => value),
    { value: 5.5, isDisturbed: true },
  );
});
