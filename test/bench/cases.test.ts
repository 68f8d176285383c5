// The cases and what is to be made of them fit each other: names are checked nowhere else before a run of many minutes.

import t from 'tap';
import type { Bench } from '../../bench/bench.js';
import { GROUPS, type Group, type GroupName } from '../../bench/cases.js';
import { measuredFigures } from '../../bench/figures.js';
import { tables } from '../../bench/report/tables.js';
import type { Results } from '../../bench/results.js';
import { type CaseResult, type GroupResult, joined, wantedCases } from '../../bench/sections/slices.js';
import { mostRounds, readSettings } from '../../bench/settings.js';
import type { Slice } from '../../bench/slice.js';
import { COLD_PER_SLICE, Pools, WARM_UP } from '../../bench/traffic/pools.js';

const names = Object.keys(GROUPS) as GroupName[];

/** What ONLY chooses, by group. */
function wanted(only: string): Record<string, string[]> {
  const bench = { settings: readSettings({ ONLY: only }) } as Bench;
  const chosen = names.map((group) => [group, wantedCases(bench, group).map(({ name }) => name)] as const);
  return Object.fromEntries(chosen.filter(([, cases]) => cases.length > 0));
}

t.test('ONLY=visit is a visit beside the floor and the limit, once', async (t) => {
  t.same(wanted('visit'), { visits: ['bare', 'floor', 'visit'] });
});

t.test('a case brings what it is compared with, and a group all of its cases', async (t) => {
  t.same(wanted('event'), { wishlist: ['bare', 'visit', 'event'] });
  t.same(wanted('scale'), { scale: GROUPS.scale.cases.map(({ name }) => name) });
  t.same(Object.keys(wanted('')), names, 'all of them without it');
  t.same(wanted('visi'), {}, 'and a part of a name is none');
});

t.test('references are cases of their group, and no name is there twice', async (t) => {
  for (const { reference, cases } of Object.values<Group>(GROUPS)) {
    const all = cases.map(({ name }) => name);
    t.same(
      reference.filter((name) => !all.includes(name)),
      [],
    );
    t.equal(new Set(all).size, all.length);
  }
});

t.test('every figure that cases give is found in their results, and shown', async (t) => {
  const slice = { operations: 1, perSecond: 1, p50Ms: 1, p99Ms: 1, cpu: { server: 1, redis: 1 } };
  const slices = [{ ...slice, disturbance: { stolen: 0, others: 0 } } as Slice];
  const groups = Object.fromEntries(
    names.map((group): [string, GroupResult] => [
      group,
      Object.fromEntries(GROUPS[group].cases.map(({ name, title, who }) => [name, { title, who, slices }])),
    ]),
  );
  const machine = { cpu: '', cores: 2, memoryGb: 1, kernel: '', versions: {} };
  const results = { at: '', commit: '', machine, settings: readSettings({}), groups } as unknown as Results;
  const figures = measuredFigures(results).map(({ title }) => title);
  t.equal(figures.length, 17, figures.join('; '));
  const shown = tables(results);
  for (const { title } of names.flatMap((group): Group['cases'] => GROUPS[group].cases))
    t.ok(shown.includes(`| ${title} |`), title);
});

t.test('starts are joined round beside round', async (t) => {
  const one = (perCall: number, ...rounds: number[]): CaseResult => ({
    title: 'a case',
    who: 'ours',
    perCall,
    slices: rounds.map((perSecond) => ({ perSecond }) as Slice),
  });
  const { a, b } = joined([
    { a: one(10, 1, 2), b: one(10, 11, 12) },
    { a: one(20, 4, 5, 6), b: one(20, 14, 15, 16) },
  ]);
  const rounds = (result?: CaseResult) => result?.slices.map(({ perSecond }) => perSecond);
  t.same(rounds(a), [1, 2, 4, 5, 6]);
  t.same(rounds(b), [11, 12, 14, 15, 16]);
  t.equal(a?.perCall, 15);
});

t.test('there are new sessions for all rounds that may be run', async (t) => {
  const dir = t.testdir();
  for (const ROUNDS of ['1', '3', '4']) {
    const settings = { ...readSettings({ ROUNDS }), visitors: 1 };
    t.ok(mostRounds(settings) >= settings.rounds * 1.5);
    // Each is a file of some hundred megabytes.
    if (ROUNDS !== '1') continue;
    const { size } = new Pools(dir, settings).get('cold');
    t.ok(size >= WARM_UP + 2 * COLD_PER_SLICE * mostRounds(settings), ROUNDS);
  }
});

t.test("what visitors' rights cost is shown, and held against its bounds", async (t) => {
  const run = { p99Ms: 2, maxMs: 9, sent: 10, failed: 1, disturbance: { stolen: 0, others: 0 } };
  const pings = { sent: 1, p999Ms: 3, longestMs: 4 };
  const before = { runs: [run], pauseMs: 6.1, told: {}, pings };
  const meanwhile = (pauseMs: number) => ({ runs: [run, run], pauseMs, told: {}, pings });
  const beside = { seconds: 7, redisCpu: 1, before };
  const rights = {
    rate: 1_000,
    shop: { ...beside, meanwhile: meanwhile(5.1), visitors: 1_000_000, signedIn: 20_000 },
    sweep: { ...beside, meanwhile: meanwhile(4.9), guests: 10_000_000, expired: 1_000_000 },
    webhooks: { count: 200, p99Ms: 20, longestMs: 1_000 },
    clickhouse: { rows: 10_000_000, profiles: 1_000, seconds: 12 },
  };
  const machine = { cpu: '', cores: 2, memoryGb: 1, kernel: '', versions: {} };
  const results = { at: '', commit: '', machine, settings: readSettings({}), rights } as unknown as Results;
  t.same(
    measuredFigures(results).map(({ reached }) => reached),
    [false, true, true],
    'the shop, the sweep, the webhooks',
  );
  const shown = tables(results);
  t.match(shown, '| visits that were not answered well meanwhile | 2 of 20 | 2 of 20 |');
  t.match(shown, '| 1,000 profiles erased from 10,000,000 rows of ClickHouse | 12.0 s |');
});
