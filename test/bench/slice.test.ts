// What a slice is worth: CPU time as the kernel tells it, the rule for slices that others disturbed, medians of what is left,
// and where a slow request waited.

import { execFileSync } from 'node:child_process';
import t from 'tap';
import { type Disturbance, machineCpu, ownSeconds, startMeter } from '../../bench/cpu.js';
import { cpuUs, isDisturbed, medianOf, type Slice } from '../../bench/slice.js';
import { noiseOfMedian } from '../../bench/statistics.js';
import { causesOf, type Sample, type Scheduled, SENT_LATE, UNEXPLAINED } from '../../bench/waits.js';

const BUSY_MS = 200;

function work(): void {
  const script = `for (const end = performance.now() + ${BUSY_MS}; performance.now() < end; );`;
  execFileSync(process.execPath, ['-e', script]);
}

function measured(value: number, { stolen = 0, others = 0 }: Partial<Disturbance> = {}) {
  return { value, disturbance: { stolen, others } };
}

t.test("the machine's CPU time is told by the first line of /proc/stat", async (t) => {
  const stat = 'cpu  100 25 50 800 0 25 0 0 50 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n';
  // Guest time (50) is in user time already.
  t.same(machineCpu(stat), { capacity: 10, busy: 1.75, stolen: 0 });
  t.equal(machineCpu('cpu  0 0 0 0 0 0 0 50 0 0\n').stolen, 0.5);
  t.ok(machineCpu().capacity > 0, 'and is there');
});

t.test('others are what is neither in the target nor a child of ours', async (t) => {
  const meter = startMeter({ pids: { server: [process.pid] } });
  const before = machineCpu();
  const own = ownSeconds();
  work();
  const seconds = ownSeconds() - own;
  t.ok(seconds > BUSY_MS / 4_000, `${seconds} s`);
  const { cpu, disturbance } = meter();
  const after = machineCpu();
  const all = (after.busy - before.busy) / (after.capacity - before.capacity);
  const ours = (ownSeconds() - own) / (after.capacity - before.capacity);
  t.ok(disturbance.others <= Math.max(0, all - ours) + 0.1, `${disturbance.others} of ${all}, ${ours} ours`);
  t.ok((cpu.server ?? 0) >= 0);
});

t.test('a slice is disturbed where more than 2 % was stolen or others took more than 15 %', async (t) => {
  t.notOk(isDisturbed(measured(1, { stolen: 0.02, others: 0.15 })));
  t.ok(isDisturbed(measured(1, { stolen: 0.021 })));
  t.ok(isDisturbed(measured(1, { others: 0.151 })));
});

t.test('a ratio is of slices of one round, and both must be undisturbed', async (t) => {
  const ours = [measured(10), measured(500), measured(900), measured(40)];
  const theirs = [measured(5), measured(10, { others: 0.5 }), measured(1, { stolen: 0.5 }), measured(10)];
  const ratio = medianOf([ours, theirs], (a, b) => a.value / b.value);
  t.same(ratio, { value: 3, isDisturbed: false }, 'of 2 and 4');
});

t.test('where fewer than a third are undisturbed all are taken, and that is told', async (t) => {
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

t.test('CPU per operation is that of the parts that are asked for', async (t) => {
  const slice = { operations: 1_000, cpu: { server: 0.5, redis: 0.25, flusher: 1 } } as unknown as Slice;
  t.equal(cpuUs(slice, 'server'), 500);
  t.equal(cpuUs(slice, 'server', 'redis'), 750);
  t.equal(cpuUs(slice, 'clickhouse'), 0);
});

t.test('the noise of a comparison goes with the starts, however many slices each has', async (t) => {
  const once = noiseOfMedian([1.1, 1 / 1.1], 2);
  t.ok(Math.abs(once - (3 * 1.2533 * Math.log(1.1)) / Math.SQRT2) < 1e-9);
  t.ok(Math.abs(noiseOfMedian([1.1, 1.1, 1.1, 1 / 1.1, 1 / 1.1, 1 / 1.1], 2) - once) < 1e-9);
});

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

t.test('no more than the time of the request is blamed, and nothing that has ended', async (t) => {
  const samples = looks({ server: { ran: 0, waited: 10 }, Redis: idle }, { server: idle, Redis: idle });
  t.same(causesOf([{ due: 8, sent: 8, answered: 10 }], samples), { 'server waited for a core': 1 });
  t.same(causesOf([{ due: 11, sent: 11, answered: 15 }], samples), { [UNEXPLAINED]: 1 });
  const ended = looks({ server: { ran: Number.NaN, waited: Number.NaN }, Redis: idle });
  for (const none of [ended, []])
    t.same(causesOf([{ due: 1, sent: 1, answered: 9 }], none), { [UNEXPLAINED]: 1 });
});
