// The search itself, on programs of which the number of orders is known.

import t from 'tap';
import type { Access } from './accesses.js';
import { type Pending, Search } from './search.js';

type Program = readonly (readonly Access[])[];

const read = (key: string): Access[] => [{ key, field: '*', mode: 'read' }];
const write = (key: string): Access[] => [{ key, field: '*', mode: 'write' }];
const add = (key: string): Access[] => [{ key, field: '*', mode: 'add' }];

/** Runs programs (each a list of steps) in every order. @returns the orders that ran to their end */
function orders(programs: readonly Program[], addsCommute = false): { ended: string[][]; cut: number } {
  const search = new Search(addsCommute);
  const ended: string[][] = [];
  let cut = 0;
  for (let schedule = search.next(); schedule !== undefined; schedule = search.next()) {
    const at = programs.map(() => 0);
    const order: string[] = [];
    for (;;) {
      const enabled = programs.flatMap((program, i): Pending[] =>
        (at[i] as number) < program.length ? [{ id: `${i}.${at[i]}`, actor: String(i) }] : [],
      );
      if (enabled.length === 0) {
        ended.push(order);
        break;
      }
      const id = schedule.choose(enabled);
      if (id === undefined) {
        cut++;
        break;
      }
      const [i, k] = id.split('.').map(Number) as [number, number];
      at[i] = k + 1;
      order.push(id);
      const after = Array.from({ length: k }, (_, earlier) => `${i}.${earlier}`);
      schedule.ran({ id, actor: String(i), accesses: programs[i]?.[k] as Access[], after });
    }
  }
  return { ended, cut };
}

/** All orders, without any reduction, told apart by the order of conflicting steps alone. */
function classes(programs: readonly Program[]): number {
  const found = new Set<string>();
  const go = (at: readonly number[], order: readonly [number, number][]) => {
    const next = programs.flatMap((program, i) => ((at[i] as number) < program.length ? [i] : []));
    if (next.length === 0) {
      const pairs: string[] = [];
      order.forEach(([i, k], a) => {
        for (const [j, l] of order.slice(a + 1)) {
          const [one, other] = [programs[i]?.[k] as Access[], programs[j]?.[l] as Access[]];
          const meet = one.some((x) =>
            other.some((y) => x.key === y.key && (x.mode !== 'read' || y.mode !== 'read')),
          );
          if (i !== j && meet) pairs.push(`${i}.${k}<${j}.${l}`);
        }
      });
      found.add(pairs.sort().join());
    }
    for (const i of next)
      go(
        at.map((n, j) => (i === j ? n + 1 : n)),
        [...order, [i, at[i] as number]],
      );
  };
  go(
    programs.map(() => 0),
    [],
  );
  return found.size;
}

const PROGRAMS: readonly { name: string; programs: readonly Program[]; count: number }[] = [
  { name: 'three that write one key', programs: [[write('x')], [write('x')], [write('x')]], count: 6 },
  {
    name: 'three that write keys of their own',
    programs: [[write('x')], [write('y')], [write('z')]],
    count: 1,
  },
  { name: 'three that read one key', programs: [[read('x')], [read('x')], [read('x')]], count: 1 },
  {
    name: 'a reader between two writes',
    programs: [
      [read('x'), write('x')],
      [read('x'), write('x')],
    ],
    count: 4,
  },
  {
    name: 'one writer, three readers that do something else first',
    programs: [[write('x')], ...['a', 'b', 'c'].map((key) => [write(key), read('x')])],
    count: 8,
  },
  {
    name: 'flags and turns',
    programs: [
      [write('a'), write('t'), read('b'), read('t')],
      [write('b'), write('t'), read('a'), read('t')],
    ],
    count: 0,
  },
  {
    name: 'three that look, look elsewhere and write',
    programs: [
      [read('x'), read('y'), write('x')],
      [read('y'), read('x'), write('y')],
      [read('x'), write('y'), write('x')],
    ],
    count: 0,
  },
];

t.test('each order that can make a difference is run, and run once', async (t) => {
  for (const { name, programs, count } of PROGRAMS) {
    const all = classes(programs);
    const { ended, cut } = orders(programs);
    t.equal(ended.length, all, `${name}: ${ended.length} orders, ${cut} begun in vain`);
    if (count > 0) t.equal(all, count);
    t.ok(cut <= all, 'few are begun in vain');
  }
});

t.test('additions change places only where no operation is told the sum', async (t) => {
  const programs = [[add('x')], [add('x')], [add('x')]];
  t.equal(orders(programs).ended.length, 6);
  t.equal(orders(programs, true).ended.length, 1);
});

t.test('a schedule is run again by its steps', async (t) => {
  const path = ['1.0', '0.0', '1.1'];
  const schedule = new Search().follow(path);
  const enabled = [
    { id: '0.0', actor: '0' },
    { id: '1.0', actor: '1' },
  ];
  t.equal(schedule.choose(enabled), '1.0');
  schedule.ran({ id: '1.0', actor: '1', accesses: [], after: [] });
  t.equal(schedule.choose(enabled.slice(0, 1)), '0.0');
  schedule.ran({ id: '0.0', actor: '0', accesses: [], after: [] });
  t.equal(
    schedule.choose([{ id: '1.2', actor: '1' }]),
    '1.2',
    'what is not there any more can not be chosen',
  );
  t.notOk(schedule.isFaithful);
});
