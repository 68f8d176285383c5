// A line to Redis that cuts, drops, delays and splits, under load: counts are exact.

import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { until } from '../cli/wishmeter.js';
import { type Proxy as Line, startProxy } from '../harness/proxy.js';
import { FULL, openService } from './service.js';

let proxy: Line | undefined;
const service = await openService({
  via: {
    async redis(url) {
      proxy = await startProxy(t, url);
      return proxy.url;
    },
  },
});
t.teardown(() => service.stop());
const line = proxy as unknown as Line;
const loads: ReturnType<typeof service.load>[] = [];
const MS = FULL ? 60_000 : 4_000;
const TRIES = 3;

interface Fault {
  readonly what: string;
  begin(): void;
  end(): void;
  /** Whether callers get a 200 all the same. */
  readonly unnoticed: boolean;
}

const FAULTS: readonly Fault[] = [
  {
    what: 'one reply in twenty is cut off, at any byte, after its command was done',
    begin: () => line.cutReplies(0.05),
    end: () => line.cutReplies(0),
    unnoticed: false,
  },
  {
    what: 'all connections are dropped, ten times a second',
    begin() {
      dropping = setInterval(() => line.dropAll(), 100);
    },
    end: () => clearInterval(dropping),
    unnoticed: false,
  },
  {
    what: 'each direction takes 50 ms',
    begin: () => line.delay(50),
    end: () => line.delay(0),
    unnoticed: true,
  },
  {
    what: 'commands and replies come byte by byte',
    begin: () => line.split(1),
    end: () => line.split(0),
    unnoticed: false, // on a busy machine it may take longer than the time-out
  },
  {
    what: 'nothing passes for longer than anybody waits, again and again',
    begin() {
      line.freeze();
      dropping = setInterval(() => {
        line.thaw();
        setTimeout(() => line.freeze(), 300);
      }, 1_300);
    },
    end() {
      clearInterval(dropping);
      setTimeout(() => line.thaw(), 400);
    },
    unnoticed: false,
  },
];
let dropping: NodeJS.Timeout | undefined;

for (const [round, { what, begin, end, unnoticed }] of FAULTS.entries()) {
  const play = async (t: Test, name: string) => {
    const load = service.load({ seed: round, name, connections: what.endsWith('byte by byte') ? 2 : 24 });
    loads.push(load);
    await load.untilServed();
    const cuts = line.cuts;
    begin();
    await sleep(MS);
    await until('all the same some are served', () => load.acknowledged > 30);
    end();
    await sleep(500);
    await load.untilServed();
    await load.stop();
    t.comment(`${load}; ${line.cuts - cuts} replies cut`);
    return Object.keys(load.answers);
  };
  t.test(what, { timeout: 300_000 }, async (t) => {
    let answers = await play(t, `p${round}`);
    // A machine that stalls for longer than the time-out refuses what is under way, whatever the fault.
    for (let again = 1; unnoticed && answers.length > 1 && again < TRIES; again++)
      answers = await play(t, `p${round}-${again}`);
    if (unnoticed) t.same(answers, ['200']);
    await service.exact(t, ...loads);
  });
}
