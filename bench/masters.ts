// `make bench-masters`: what many masters make of the price of a visit, in a minute. It measures what a call of Redis
// costs by its size, and simulates how many visits a call has, for the plan of docs/scaling.md, too. Prints the tables
// that docs/scaling.md quotes.

import { join } from 'node:path';
import { runProgram } from './program.js';
import { table } from './report/tables.js';
import { type CallCost, measureCalls, priceOf } from './sections/calls.js';
import { type Outcome, type Prices, type Scenario, simulate } from './simulation/one-serve.js';
import { median } from './statistics.js';

/** µs of CPU of `serve` for a request without its call: a visit with 512 connections, whose calls are large. */
const REQUEST_US = 12;
const ROUNDS = 8;
const SECONDS = 1;
/** Smart Save asks for a count on some pages. */
const READS = 0.2;
/** Columns of the plan in docs/scaling.md. */
const PLANS = [
  { masters: 1, serves: 2, perSecond: 1_000 },
  { masters: 6, serves: 4, perSecond: 100_000 },
  { masters: 26, serves: 35, perSecond: 1_000_000 },
] as const;
const PLAN = PLANS[2];

/** `load` is a part of the day's peak. */
const DAY = [
  { title: 'night', load: 0.05, serves: PLAN.serves },
  { title: 'mean of a day', load: 1 / 3, serves: PLAN.serves },
  { title: 'peak', load: 1, serves: PLAN.serves },
  { title: 'peak, a machine of `serve` lost', load: 1, serves: Math.floor((PLAN.serves * 3) / 4) },
  { title: 'twice the peak', load: 2, serves: PLAN.serves },
] as const;

/** Milliseconds that a master is away: a connection that is cut, and a failover. */
const LOSSES = [100, 300, 1_500] as const;

const BOTH = [false, true] as const;

await runProgram('bench-masters', async (dir) => {
  const say = (sentence: string) => process.stderr.write(`${sentence}\n`);
  say(`calls of ${ROUNDS} rounds`);
  const costs = await measureCalls(join(dir, 'redis'), ROUNDS);
  const prices: Prices = {
    serve: { request: REQUEST_US, ...priceOf(costs, 'serve') },
    redis: priceOf(costs, 'redis'),
  };
  print(curve(costs), sentenceOf(prices));
  const run = (scenario: Pick<Scenario, 'masters' | 'perSecond'> & Partial<Scenario>) =>
    simulate({ reads: 0, seconds: SECONDS, prices, mayWait: true, ...scenario });
  say('batches of one serve');
  print(await sizes(run));
  say('the plan');
  print(await plans(run), await day(run), await losses(run, prices));
  return 0;
});

type Run = (scenario: Pick<Scenario, 'masters' | 'perSecond'> & Partial<Scenario>) => Promise<Outcome>;

function print(...parts: readonly string[]): void {
  for (const part of parts) process.stdout.write(`${part}\n\n`);
}

function curve(costs: ReadonlyMap<number, readonly CallCost[]>): string {
  const rows = [...costs].map(([size, all]) => {
    const of = (part: keyof CallCost) => {
      const values = all.map((cost) => cost[part]).toSorted((a, b) => a - b);
      const middle = median(values);
      return [
        `${middle.toFixed(0)} (${values[1]?.toFixed(0)} – ${values.at(-2)?.toFixed(0)})`,
        (middle / size).toFixed(1),
      ];
    };
    return [`${size}`, ...of('serve'), ...of('redis')];
  });
  const heads = ['`serve`: µs a call', 'a visit', 'Redis: µs a call', 'a visit'];
  return table(['visits a call', ...heads], rows);
}

function sentenceOf({ serve, redis }: Prices): string {
  const price = ({ call, visit }: { call: number; visit: number }) =>
    `${call.toFixed(0)} µs a call and ${visit.toFixed(1)} a visit`;
  return `\`serve\`: ${price(serve)}; Redis: ${price(redis)}.`;
}

function ms(value: number): string {
  return value.toFixed(1);
}

function percent(part: number): string {
  return `${(part * 100).toFixed(0)} %`;
}

/** Each figure without gaps, and with them. */
function pair(outcomes: readonly Outcome[], show: (outcome: Outcome) => string): string {
  return outcomes.map(show).join(' → ');
}

async function inTurn<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const one of all) results.push(await work(one)); // each takes over this process's clock
  return results;
}

async function sizes(run: Run): Promise<string> {
  const cases = [0, READS].flatMap((reads) => [1, 3, 12, 26].map((masters) => ({ masters, reads })));
  const rows = await inTurn(cases, async ({ masters, reads }) => {
    const both = await inTurn(BOTH, (mayWait) => run({ masters, reads, perSecond: 20_000, mayWait }));
    return [
      ...[`${masters}`, percent(reads), pair(both, ({ perCall }) => perCall.toFixed(1))],
      ...[pair(both, ({ visitMs }) => ms(visitMs.p50)), pair(both, ({ visitMs }) => ms(visitMs.p99))],
      ...(reads === 0
        ? ['', '']
        : [pair(both, ({ readMs }) => ms(readMs.p50)), pair(both, ({ readMs }) => ms(readMs.p99))]),
      pair(both, ({ serveCpu }) => percent(serveCpu)),
    ];
  });
  const heads = ['visit p50 ms', 'p99', 'read p50 ms', 'p99', "`serve`'s core"];
  return table(['masters', 'reads', 'requests a call', ...heads], rows);
}

async function plans(run: Run): Promise<string> {
  const rows = await inTurn(PLANS, async ({ masters, serves, perSecond }) => {
    const both = await inTurn(BOTH, (mayWait) => run({ masters, perSecond: perSecond / serves, mayWait }));
    return [
      ...[
        perSecond.toLocaleString('en'),
        `${serves}`,
        `${masters}`,
        pair(both, ({ perCall }) => perCall.toFixed(1)),
      ],
      pair(both, ({ serveCpu }) => (serveCpu * serves).toPrecision(2)),
      pair(both, ({ masterCpu }) => (masterCpu * serves * masters).toPrecision(2)),
    ];
  });
  const heads = ['`serve`', 'masters', 'visits a call', 'cores: `serve`', 'cores: Redis'];
  return table(['visits/s', ...heads], rows);
}

async function day(run: Run): Promise<string> {
  const { masters, perSecond } = PLAN;
  const rows = await inTurn(DAY, async ({ title, load, serves }) => {
    const each = (perSecond * load) / serves;
    const both = await inTurn(BOTH, (mayWait) => run({ masters, perSecond: each, mayWait }));
    return [
      ...[title, Math.round(each).toLocaleString('en'), pair(both, ({ perCall }) => perCall.toFixed(1))],
      pair(both, ({ callsPerSecond }) => Math.round(callsPerSecond * serves).toLocaleString('en')),
      pair(both, ({ serveCpu }) => percent(serveCpu)),
      pair(both, ({ masterCpu }) => percent(masterCpu * serves)),
      ...[pair(both, ({ visitMs }) => ms(visitMs.p50)), pair(both, ({ visitMs }) => ms(visitMs.p99))],
    ];
  });
  const heads = ['calls/s of a master', "`serve`'s core", "a master's core", 'visit p50 ms', 'p99'];
  return table(['', 'visits/s of a `serve`', 'visits a call', ...heads], rows);
}

async function losses(run: Run, { redis }: Prices): Promise<string> {
  const { masters, perSecond, serves } = PLAN;
  const rows = await inTurn(LOSSES, async (away) => {
    const loss = [200, 200 + away] as const;
    const seconds = (loss[1] + 300) / 1_000;
    const { refused, after, mostPending, visitMs } = await run({
      ...{ masters, perSecond: perSecond / serves, seconds, loss },
    });
    const busy = (serves * (after.calls * redis.call + after.visits * redis.visit)) / 1e6;
    return [
      ...[
        away.toLocaleString('en'),
        percent((refused * 1_000 * serves) / perSecond / away),
        `${mostPending}`,
        ms(visitMs.p99),
      ],
      ...[(after.visits * serves).toLocaleString('en'), (after.calls * serves).toLocaleString('en')],
      busy.toFixed(2),
    ];
  });
  const heads = [
    'visits refused',
    'most pending of a `serve`',
    'p99 ms',
    'visits then',
    'in calls',
    'CPU s of the master',
  ];
  return table(['a master is away, ms', ...heads], rows);
}
