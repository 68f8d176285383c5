// The sweep of guests whose GUEST_RETENTION_DAYS are over, beside visits.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { createKeys } from '../../../src/redis/keys.js';
import type { Bench } from '../../bench.js';
import { fillGuests } from '../../load/fill.js';
import { same } from '../../proofs/proof.js';
import { countKeys, startBenchRedis } from '../../servers/redis.js';
import { startWishmeter } from '../../servers/wishmeter.js';
import { type Beside, beside, COMING_BACK, pausesOff } from './beside.js';
import { countOf, made, nthVisit, sampleOf } from './crowd.js';

/** One of this many guests is expired. */
const EXPIRED_OF = 10;
/** Days since the last visit, where GUEST_RETENTION_DAYS is 365: of an expired guest, and at most of any other. */
const [LONG_AGO, RECENT] = [400, 300];
const DAY_S = 86_400;
/** A sweep rests between its steps, nine times as long as one took. After this time without a step it is over. */
const SWEEP_RESTS_MS = 30_000;
const POLL_MS = 100;

export type Sweep = Beside & { readonly guests: number; readonly expired: number };

const keys = createKeys('wm');

export async function measureSweep(bench: Bench): Promise<Sweep> {
  const { guests } = bench.settings;
  const expired = Math.ceil(guests / EXPIRED_OF);
  const isExpired = (n: number) => n % EXPIRED_OF === 0;
  const dir = bench.folder();
  const redis = await startBenchRedis(join(dir, 'redis'));
  const today = Math.floor(Date.now() / 1_000 / DAY_S);
  const guestOf = (n: number) => ({
    ...nthVisit(n),
    day: today - (isExpired(n) ? LONG_AGO : 1 + (n % RECENT)),
  });
  bench.say(`${guests} guests, ${expired} of them expired`);
  await fillGuests(redis.url, made(guests, guestOf));
  // Its first sweep begins a minute after its start.
  const target = await startWishmeter(
    { server: 'wishmeter', dir, isUnlogged: true, sweeps: true },
    [redis],
    async () => {},
  );
  try {
    const { port } = target;
    const client = await pausesOff(target);
    const sweep = await beside(
      bench,
      target,
      async () => {
        const before = await pagesOf(client);
        let pages = before;
        let since = performance.now();
        // First it looks at buckets, and then at pages of keys.
        while (pages === before || performance.now() - since < SWEEP_RESTS_MS) {
          await sleep(POLL_MS);
          const now = await pagesOf(client);
          if (now !== pages) since = performance.now();
          pages = now;
        }
        return since;
      },
      async () => {
        while ((await client.exists(keys.sweep)) === 0) await sleep(POLL_MS);
      },
    );
    bench.say(
      `swept in ${sweep.seconds.toFixed(1)} s, longest pause ${sweep.meanwhile.pauseMs.toFixed(1)} ms`,
    );

    same('guests that stay', (await countKeys(client, keys.door('*.s*'))) - COMING_BACK, guests - expired);
    for (const n of sampleOf(guests)) same(`guest ${n}`, await countOf(port, n), isExpired(n) ? 0 : 1);
    return { ...sweep, guests, expired };
  } finally {
    await target.stop();
  }
}

/** Number of SCAN calls so far; only the sweep makes them. */
async function pagesOf(redis: Redis): Promise<number> {
  const [, calls] = /^cmdstat_scan:calls=(\d+)/m.exec(await redis.info('commandstats')) ?? [];
  return Number(calls ?? 0);
}
