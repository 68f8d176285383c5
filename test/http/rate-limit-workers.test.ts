// A rate limit that several workers divide among them: what they accept together, and what becomes of a batch that is more
// than the share of one.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import t from 'tap';
import type { ServiceError } from '../../src/errors.js';
import type { Caller } from '../../src/http/access.js';
import { RateLimit, RateLimits } from '../../src/http/limits.js';

const range = (count: number) => Array.from({ length: count }, (_, i) => i);
const LIMIT = 60;
const WORKERS = 3;
const SHARE = LIMIT / WORKERS;
const CALLER = 'a caller';

/** The workers of one port, on a clock that the test sets. */
class Port {
  now = 1_000_500;
  readonly workers: readonly RateLimit[];

  constructor(limit = LIMIT) {
    this.workers = range(WORKERS).map(() => new RateLimit(limit, WORKERS, () => this.now));
  }

  /** Sends requests to one worker, one after the other. @returns how many it accepted */
  ask(worker: number, requests: number, caller = CALLER): number {
    return range(requests).filter(() => this.refusal(worker, 1, caller) === undefined).length;
  }

  /** Sends requests to all workers. @returns how many they accepted together */
  askAll(requests: number): number {
    return this.workers.reduce((sum, _, worker) => sum + this.ask(worker, requests), 0);
  }

  /** Why a worker refuses a request that weighs as much; undefined where it accepts it. */
  refusal(worker: number, weight: number, caller = CALLER): ServiceError | undefined {
    try {
      this.workers[worker]?.count(caller);
      if (weight !== 1) this.workers[worker]?.countWeight(caller, weight);
      return undefined;
    } catch (error) {
      return error as ServiceError;
    }
  }

  pass(seconds = 1): void {
    this.now += 1_000 * seconds;
  }
}

t.test('a flood of all workers gets exactly the limit, in every second', async (t) => {
  const port = new Port();
  for (const second of range(10)) {
    t.equal(port.askAll(2 * LIMIT), LIMIT, `second ${second}`);
    t.equal(port.ask(0, 1, `another caller ${second}`), 1);
    port.pass();
  }
});

t.test('who reaches one worker alone gets its share', async (t) => {
  const port = new Port();
  t.equal(port.ask(0, LIMIT), SHARE);
  t.match(port.refusal(0, 1), { code: 'rate_limited', retryAfterS: 1 });
  port.pass();
  t.equal(port.ask(0, LIMIT), SHARE);
});

t.test('a limit that can not be divided is rounded up: every worker accepts something', async (t) => {
  t.equal(new Port(2).askAll(5), WORKERS);
  t.equal(new Port(4).askAll(5), 2 * WORKERS);
});

t.test(
  'a batch up to the limit passes at one worker; its excess is subtracted from what follows',
  async (t) => {
    const port = new Port();
    t.equal(port.refusal(0, LIMIT), undefined);
    const accepted = range(5).map(() => {
      port.pass();
      return port.ask(0, LIMIT);
    });
    t.same(accepted, [0, 0, SHARE, SHARE, SHARE], 'as much as without the batch');

    t.equal(port.refusal(1, SHARE + 5), undefined);
    port.pass();
    t.equal(port.ask(1, LIMIT), SHARE - 5);
  },
);

t.test('the excess of a batch is paid by time, also where nothing is asked meanwhile', async (t) => {
  const port = new Port();
  t.equal(port.refusal(0, LIMIT), undefined);
  port.pass(2);
  t.equal(port.ask(0, 1), 0);
  port.pass(60);
  t.equal(port.ask(0, LIMIT), SHARE);
});

t.test('a batch of more than the limit could never pass, and is no 429', async (t) => {
  t.match(new Port().refusal(0, LIMIT + 1), { code: 'invalid_request' });
});

t.test('what is refused counts for nothing beyond its first request', async (t) => {
  const port = new Port();
  t.equal(port.ask(0, 1), 1);
  t.match(port.refusal(0, SHARE), { code: 'rate_limited' });
  t.equal(port.ask(0, LIMIT), SHARE - 2);
  port.pass();
  t.equal(port.ask(0, LIMIT), SHARE, 'no debt');
});

t.test('Retry-After is the second in which the same request passes', async (t) => {
  for (const [what, sent, weight, seconds] of [
    ['at the share', [...range(SHARE).map(() => 1)], 1, 1],
    ['after a batch of the limit', [LIMIT], 1, 3],
    ['a batch, after one of the limit', [LIMIT], SHARE, 3],
    ['a large batch, after a single request', [1], LIMIT, 1],
    ['a large batch, after another', [2 * SHARE], 2 * SHARE, 2],
  ] as [string, number[], number, number][]) {
    const port = new Port();
    for (const one of sent) t.equal(port.refusal(0, one), undefined, what);
    t.match(port.refusal(0, weight), { code: 'rate_limited', retryAfterS: seconds }, what);
    for (const left of range(seconds)) {
      if (left > 0) t.match(port.refusal(0, weight), { retryAfterS: seconds - left }, what);
      port.pass();
    }
    t.equal(port.refusal(0, weight), undefined, `${what}: passes after ${seconds} s`);
  }
});

t.test('both limits are divided, and neither where there is one worker or no limit', async (t) => {
  const res = { getRemoteAddress: () => Uint8Array.from([192, 0, 2, 1]).buffer } as HttpResponse;
  const req = { forEach() {} } as unknown as HttpRequest;
  const anyone: Caller = { kind: 'anyone', account: null, mayLink: false, customerId: null };
  const server: Caller = { ...anyone, kind: 'server', account: 'key 1' };
  const accepted = (limits: RateLimits, caller: Caller) =>
    range(20).filter(() => {
      try {
        return limits.count('visits', caller, res, req) !== undefined;
      } catch {
        return false;
      }
    }).length;
  const now = () => 1_000;
  const open = (perCaller: number, perAnonymousAddress: number, workers?: number) =>
    new RateLimits({ perCaller, perAnonymousAddress, trustedProxies: 0, workers, now });
  t.equal(accepted(open(6, 0, 2), server), 3);
  t.equal(accepted(open(0, 6, 2), anyone), 3);
  t.equal(accepted(open(6, 0), server), 6);
  t.equal(accepted(open(0, 6, 2), server), 20);
  t.equal(accepted(open(0, 0, 2), anyone), 20);
});
