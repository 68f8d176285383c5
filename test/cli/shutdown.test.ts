// The order of a shutdown, under a clock that moves only when the test says so.

import t from 'tap';
import { type Clock, type ShutdownStep, shutdown } from '../../src/commands/start/shutdown.js';

/** A clock whose `pass` fires what is due. */
function manualClock(): Clock & { pass(ms: number): Promise<void> } {
  let now = 0;
  const timers = new Set<{ at: number; then: () => void }>();
  return {
    now: () => now,
    after(ms, then) {
      const timer = { at: now + ms, then };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async pass(ms) {
      now += ms;
      for (const timer of [...timers].filter(({ at }) => at <= now)) {
        timers.delete(timer);
        timer.then();
      }
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

/** A step that notes its start, and ends when `finish` is called. */
function heldStep(name: string, withinMs: number, begun: string[]) {
  const { promise, resolve } = withResolvers();
  const step: ShutdownStep = {
    name,
    withinMs,
    run: () => {
      begun.push(name);
      return promise;
    },
  };
  return { step, finish: resolve };
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

t.test('a step begins only when the one before it has ended', async (t) => {
  const clock = manualClock();
  const begun: string[] = [];
  const serve = heldStep('serve', 100, begun);
  const flush = heldStep('flush', 100, begun);
  const redis = heldStep('redis', 100, begun);
  const ended = shutdown([serve.step, flush.step, redis.step], clock);

  await clock.pass(10);
  t.same(begun, ['serve']);
  serve.finish();
  await clock.pass(0);
  t.same(begun, ['serve', 'flush']);
  await clock.pass(20);
  flush.finish();
  await clock.pass(0);
  t.same(begun, ['serve', 'flush', 'redis']);
  redis.finish();

  t.same(await ended, [
    { name: 'serve', result: 'done', ms: 10 },
    { name: 'flush', result: 'done', ms: 20 },
    { name: 'redis', result: 'done', ms: 0 },
  ]);
});

t.test('a step that hangs is left behind at its deadline, not before it', async (t) => {
  const clock = manualClock();
  const begun: string[] = [];
  const stuck = heldStep('stuck', 100, begun);
  const next = heldStep('next', 50, begun);
  const ended = shutdown([stuck.step, next.step], clock);

  await clock.pass(99);
  t.same(begun, ['stuck']);
  await clock.pass(1);
  t.same(begun, ['stuck', 'next']);
  next.finish();
  t.same(await ended, [
    { name: 'stuck', result: 'timed out', ms: 100 },
    { name: 'next', result: 'done', ms: 0 },
  ]);
});

t.test('a step that fails, at once or later, does not keep the next from running', async (t) => {
  const late = new Error('late');
  const early = new Error('early');
  const outcomes = await shutdown([
    { name: 'late', withinMs: 1_000, run: () => Promise.reject(late) },
    {
      name: 'early',
      withinMs: 1_000,
      run: () => {
        throw early;
      },
    },
    { name: 'last', withinMs: 1_000, run: async () => {} },
  ]);
  t.match(outcomes, [
    { name: 'late', result: 'failed', error: late },
    { name: 'early', result: 'failed', error: early },
    { name: 'last', result: 'done' },
  ]);
});

t.test('no timer is left behind by a shutdown that went well', async (t) => {
  let open = 0;
  const outcomes = await shutdown([{ name: 'only', withinMs: 60_000, run: async () => {} }], {
    now: () => 0,
    after: () => {
      open += 1;
      return () => {
        open -= 1;
      };
    },
  });
  t.equal(outcomes[0]?.result, 'done');
  t.equal(open, 0);
});
