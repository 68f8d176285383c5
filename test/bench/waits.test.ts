// Where a slow request waited, from made-up looks at its processes.

import t from 'tap';
import { causesOf, type Sample, type Scheduled, SENT_LATE, UNEXPLAINED } from '../../bench/waits.js';

/** Looks at 0, 10, 20 … ms: what each process did in the interval that ends there. */
function looks(...intervals: Readonly<Record<string, Scheduled>>[]): Sample[] {
  const sum: Record<string, Scheduled> = { server: { ran: 0, waited: 0 }, Redis: { ran: 0, waited: 0 } };
  const samples: Sample[] = [{ at: 0, processes: { ...sum } }];
  for (const [i, interval] of intervals.entries()) {
    for (const [name, { ran, waited }] of Object.entries(interval)) {
      const before = sum[name] as Scheduled;
      sum[name] = { ran: before.ran + ran, waited: before.waited + waited };
    }
    samples.push({ at: (i + 1) * 10, processes: { ...sum } });
  }
  return samples;
}

const idle = { ran: 0, waited: 0 };

t.test('the largest part of the time is the cause', async (t) => {
  const samples = looks(
    { server: { ran: 9, waited: 0 }, Redis: idle },
    { server: idle, Redis: { ran: 1, waited: 8 } },
    { server: { ran: 1, waited: 1 }, Redis: idle },
  );
  const causes = causesOf(
    [
      { due: 1, sent: 1, answered: 9 }, // the server was at something else
      { due: 11, sent: 11, answered: 19 },
      { due: 12, sent: 12, answered: 19 },
      { due: 11, sent: 28, answered: 29 },
      { due: 21, sent: 21, answered: 29 }, // no load
    ],
    samples,
  );
  t.same(causes, { 'server worked': 1, 'Redis waited for a core': 2, [SENT_LATE]: 1, [UNEXPLAINED]: 1 });
});

t.test(
  'what was before it was sent, or after it was answered, is not counted for more than its time',
  async (t) => {
    const samples = looks({ server: { ran: 0, waited: 10 }, Redis: idle }, { server: idle, Redis: idle });
    t.same(causesOf([{ due: 8, sent: 8, answered: 10 }], samples), { 'server waited for a core': 1 });
    t.same(causesOf([{ due: 11, sent: 11, answered: 15 }], samples), { [UNEXPLAINED]: 1 });
  },
);

t.test('a process that has ended, or none at all, explains nothing', async (t) => {
  const samples = looks({ server: { ran: Number.NaN, waited: Number.NaN }, Redis: idle });
  t.same(causesOf([{ due: 1, sent: 1, answered: 9 }], samples), { [UNEXPLAINED]: 1 });
  t.same(causesOf([{ due: 1, sent: 1, answered: 9 }], []), { [UNEXPLAINED]: 1 });
});
