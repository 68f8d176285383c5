// What docs/scaling.md promises of a process before many masters, in the simulation with the program's batcher.

import t from 'tap';
import { type Scenario, simulate } from '../../bench/simulation/one-serve.js';

const PRICES = { serve: { request: 12, call: 26, visit: 2 }, redis: { call: 28, visit: 2.6 } };
const of = (scenario: Partial<Scenario>) =>
  simulate({
    ...{ masters: 26, perSecond: 20_000, reads: 0, seconds: 0.5, prices: PRICES, mayWait: true },
    ...scenario,
  });

t.test('before 26 masters, 20,000 visits a second are at least 4 a call, 5 ms later at most', async (t) => {
  const [alone, joined] = [await of({ mayWait: false }), await of({})];
  t.ok(joined.perCall >= 4, `${joined.perCall} visits a call`);
  t.ok(alone.perCall < 2, `${alone.perCall} without gaps`);
  t.ok(
    joined.visitMs.p50 <= alone.visitMs.p50 + 5,
    `${joined.visitMs.p50} ms, ${alone.visitMs.p50} without gaps`,
  );
});

t.test('before 26 masters, a read among visits is answered no later than without gaps', async (t) => {
  const [alone, joined] = [await of({ reads: 0.2, mayWait: false }), await of({ reads: 0.2 })];
  t.ok(joined.readMs.p50 <= alone.readMs.p50, `${joined.readMs.p50} ms, ${alone.readMs.p50} without gaps`);
  t.ok(
    joined.readMs.p99 <= alone.readMs.p99,
    `p99 ${joined.readMs.p99} ms, ${alone.readMs.p99} without gaps`,
  );
});

t.test('before one server gaps change nothing', async (t) => {
  t.same(await of({ masters: 1 }), await of({ masters: 1, mayWait: false }));
});

t.test(
  'a master that is away for less than the time-out costs no visit, and a longer one only its own',
  async (t) => {
    t.equal((await of({ seconds: 0.6, loss: [100, 300] })).refused, 0);
    const { refused } = await of({ seconds: 1.2, loss: [100, 1_100] });
    t.ok(refused > 0 && refused <= (20_000 / 26) * 1.2, `${refused} visits refused`);
  },
);
