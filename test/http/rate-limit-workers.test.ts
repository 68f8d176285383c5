// A rate limit over several workers: what they accept together, with messages that the test holds in its hands.

import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import type { ServiceError } from '../../src/errors.js';
import { type Accepted, RateLimit } from '../../src/http/rate-limit.js';
import { openRateLimits } from '../../src/http/rate-limits.js';
import { until } from '../harness/until.js';

const range = (count: number) => Array.from({ length: count }, (_, i) => i);
const SHARED_LIMIT = 60;
const WORKERS = 3;
const CALLER = 'a caller';

class Port {
  /** In the middle of a second. */
  now = 1_000_500;
  /** Messages that are on their way: whom they come from, and what they say. */
  readonly sent: [number, Accepted][] = [];
  readonly workers: readonly RateLimit[];

  constructor(limit = SHARED_LIMIT) {
    this.workers = Array.from(
      { length: WORKERS },
      (_, i) =>
        new RateLimit(limit, {
          workers: WORKERS,
          now: () => this.now,
          tell: (accepted) => void this.sent.push([i, accepted]),
        }),
    );
  }

  /** Sends requests to one worker, one after the other. @returns how many it accepted */
  ask(worker: number, requests: number, caller = CALLER): number {
    let accepted = 0;
    for (let i = 0; i < requests; i++) if (this.accepts(worker, 1, caller)) accepted++;
    return accepted;
  }

  accepts(worker: number, requests: number, caller = CALLER): boolean {
    try {
      this.workers[worker]?.count(caller, requests);
      return true;
    } catch {
      return false;
    }
  }

  /** Brings every message to the others. */
  async deliver(): Promise<void> {
    await turn();
    for (const [from, accepted] of this.sent.splice(0)) {
      for (const [i, worker] of this.workers.entries()) if (i !== from) worker.told(accepted);
    }
  }

  nextSecond(): void {
    this.now += 1_000;
  }
}

t.test('who keeps to the limit is never refused, over any workers, whatever is late', async (t) => {
  const port = new Port();
  for (let second = 0; second < 20; second++) {
    for (let i = 0; i < SHARED_LIMIT; i++) {
      t.equal(port.ask((second + i * i) % WORKERS, 1), 1);
      // Now and then nothing is heard for more than a second.
      if (second % 3 !== 0 && i % 7 === 0) await port.deliver();
    }
    port.nextSecond();
  }
});

t.test('a flood: exactly the limit over one worker, within a tenth of it over all', async (t) => {
  const [one, all] = [new Port(), new Port()];
  for (let second = 0; second < 10; second++) {
    t.equal(one.ask(0, SHARED_LIMIT + 10), SHARED_LIMIT);
    await one.deliver();
    t.equal(one.ask(1, 1), 0, 'and nothing more to another one');
    t.equal(one.ask(1, 1, `another caller ${second}`), 1);
    one.nextSecond();

    let accepted = 0;
    for (let i = 0; i < SHARED_LIMIT; i++) {
      for (let worker = 0; worker < WORKERS; worker++) accepted += all.ask(worker, 1);
      await all.deliver();
    }
    t.ok(accepted <= SHARED_LIMIT * 1.1 && accepted >= SHARED_LIMIT * 0.9, `${accepted} accepted`);
    all.nextSecond();
  }
});

/** Seconds in each of which a caller sends more than the limit to each worker, one after the other. */
async function floodAll(port: Port, seconds: number, { isLate }: { isLate: boolean }): Promise<number[]> {
  const accepted: number[] = [];
  for (let second = 0; second < seconds; second++) {
    accepted.push(port.workers.reduce((sum, _, worker) => sum + port.ask(worker, 2 * SHARED_LIMIT), 0));
    if (!isLate) await port.deliver();
    port.nextSecond();
    if (isLate) await port.deliver();
  }
  return accepted;
}

t.test('a flood that none hears of at first is paid back; then each worker accepts its share', async (t) => {
  const port = new Port();
  const accepted = await floodAll(port, 12, { isLate: false });
  t.same(accepted, [WORKERS * SHARED_LIMIT, 0, 0, ...new Array(9).fill(SHARED_LIMIT)]);
  // No caller is a flood for ever.
  t.equal(port.ask(0, 5), 5);
  port.nextSecond();
  t.equal(port.ask(0, SHARED_LIMIT), SHARED_LIMIT);

  const late = await floodAll(new Port(), 12, { isLate: true });
  t.same(
    late.slice(0, 3),
    [WORKERS * SHARED_LIMIT, 0, 0],
    'also where it is heard of when its second is over',
  );
  t.ok(late.reduce((a, b) => a + b) <= 12 * SHARED_LIMIT * 1.1, String(late));
});

t.test('who comes back later finds the debt paid by the time in between', async (t) => {
  const port = new Port();
  for (let worker = 0; worker < WORKERS; worker++) port.ask(worker, SHARED_LIMIT);
  await port.deliver();
  port.nextSecond();
  t.equal(port.ask(0, 1), 0);
  port.now += 60_000;
  t.equal(port.ask(0, SHARED_LIMIT), SHARED_LIMIT);
});

t.test('what is refused counts for nothing, also for a batch', async (t) => {
  const port = new Port();
  t.notOk(port.accepts(0, SHARED_LIMIT + 1));
  t.ok(port.accepts(0, SHARED_LIMIT - 1));
  t.notOk(port.accepts(0, 2));
  t.ok(port.accepts(0, 1));
  await port.deliver();
  port.nextSecond();
  t.equal(port.ask(1, SHARED_LIMIT), SHARED_LIMIT, 'no debt');
});

t.test('many callers with one request each are one message, and it is sent by itself', async (t) => {
  const port = new Port();
  for (let i = 0; i < 1_000; i++) port.ask(0, 1, `visitor ${i}`);
  await turn();
  t.equal(port.sent.length, 0, 'not at once');
  await until('the others are told', () => port.sent.length > 0);
  t.equal(port.sent.length, 1);
  t.equal(port.sent[0]?.[1].requests.length, 1_000);
});

t.test('however much one caller sends in a turn of the event loop, it is one message', async (t) => {
  const port = new Port(1_000);
  port.ask(0, 1_000);
  await turn();
  t.same(port.sent, [[0, { second: 1_000, requests: [[CALLER, 1_000]] }]]);
});

t.test('Retry-After is the second in which the same request passes', async (t) => {
  const port = new Port();
  const passes = async (requests: number) => {
    const limit = port.workers[0] as RateLimit;
    const retryAfterS = () => {
      try {
        limit.count(CALLER, requests);
        return 0;
      } catch (error) {
        return (error as ServiceError).retryAfterS;
      }
    };
    const told = retryAfterS();
    t.ok(told > 0, 'refused');
    for (let left = told; left > 0; left--) {
      t.equal(retryAfterS(), left);
      port.nextSecond();
      await port.deliver();
    }
    t.equal(retryAfterS(), 0, `${requests} requests pass after ${told} s`);
    port.now += 60_000;
    return told;
  };
  for (const [what, sent, requests, seconds] of [
    ['at the limit', [SHARED_LIMIT, 0, 0], 1, 1],
    ['in debt', [SHARED_LIMIT, SHARED_LIMIT, SHARED_LIMIT], 1, 3],
    ['in debt, as much as the share of a worker', new Array(3).fill(SHARED_LIMIT), SHARED_LIMIT / WORKERS, 3],
    ['more than a worker has of a flood', new Array(2).fill(SHARED_LIMIT * 0.6), SHARED_LIMIT / 2, 2],
  ] as [string, number[], number, number][]) {
    for (const [worker, count] of sent.entries()) port.ask(worker, count);
    await port.deliver();
    t.equal(await passes(requests), seconds, what);
  }
});

t.test('workers tell each other of each limit by its name', async (t) => {
  const settings = { RATE_LIMIT: 3, ANONYMOUS_RATE_LIMIT: 3 };
  const sent: unknown[] = [];
  const hearers: ((value: never) => void)[] = [];
  const open = () =>
    openRateLimits(settings, {
      workers: 2,
      now: () => 1_000_500,
      exchange<T>(onShared: (value: T) => void) {
        hearers.push(onShared as (value: never) => void);
        return (value: T) => void sent.push(value);
      },
    });
  const here = open();
  hearers.length = 0;
  const there = open();
  for (const _ of range(3)) here.anonymous?.count('192.0.2.1');
  await turn();
  for (const value of sent) for (const hear of hearers) hear(value as never);
  t.throws(() => there.anonymous?.count('192.0.2.1'));
  t.doesNotThrow(() => there.callers?.count('192.0.2.1'));
  const none = { callers: undefined, anonymous: undefined };
  t.same(openRateLimits({ RATE_LIMIT: 0, ANONYMOUS_RATE_LIMIT: 0 }), none);
});
