// A million visitors: what they take in Redis, and what they cost a visit, beside ten thousand.

import type { Redis } from 'ioredis';
import { createKeys } from '../../src/redis/keys.js';
import type { Bench } from '../bench.js';
import { fillVisits } from '../load/fill.js';
import { type Answered, replay } from '../load/wrk.js';
import { same } from '../proofs/proof.js';
import { settledMemory, startBenchRedis, sumHashes, untilWritten } from '../servers/redis.js';
import type { Target } from '../servers/target.js';
import { startWishmeter } from '../servers/wishmeter.js';
import { median } from '../statistics.js';
import { ofVisits, type Pool, WARM_UP } from '../traffic/pools.js';
import { drawn, postVisit, visitsOf } from '../traffic/requests.js';

/** Few visitors, for comparison. */
const FEW = 10_000;
/** Requests of a pool: different visitors, and more than one round has time for. */
const POOL = 200_000;

export interface Crowd {
  readonly visitors: number;
  /** Bytes in Redis of a mapping from an identity to its profile, as an event or an item makes one. */
  readonly bytesPerIdentity: number;
  /** Bytes in Redis of a visitor with one counted product, and no mapping: its name tells the profile. */
  readonly bytesPerVisitor: number;
  /** Warm visits; medians. */
  readonly few: Pick<Answered, 'perSecond' | 'p99Ms'>;
  readonly many: Pick<Answered, 'perSecond' | 'p99Ms'>;
}

interface World {
  readonly visitors: number;
  readonly target: Target;
  readonly bytesPerIdentity: number;
  readonly bytesPerVisitor: number;
  readonly pool: Pool;
  readonly rounds: Answered[];
  /** Visits that were acknowledged. */
  acknowledged: number;
}

export async function measureCrowd(bench: Bench): Promise<Crowd> {
  const worlds: World[] = [];
  try {
    for (const visitors of [FEW, bench.settings.crowd]) {
      bench.say(`${visitors} visitors come`);
      worlds.push(await populate(bench, visitors));
    }
    for (let round = 0; round < bench.settings.rounds; round++)
      for (const world of worlds) await visit(bench, world);
    for (const world of worlds) await prove(world);
    const [few, many] = worlds as [World, World];
    const summary = ({ rounds }: World) => ({
      perSecond: median(rounds.map(({ perSecond }) => perSecond)),
      p99Ms: median(rounds.map(({ p99Ms }) => p99Ms)),
    });
    const { visitors, bytesPerIdentity, bytesPerVisitor } = many;
    return { visitors, bytesPerIdentity, bytesPerVisitor, few: summary(few), many: summary(many) };
  } finally {
    for (const { target } of worlds) await target.stop();
  }
}

async function populate({ folder, pools }: Bench, visitors: number): Promise<World> {
  const dir = folder();
  const redis = await startBenchRedis(`${dir}/redis`);
  const target = await startWishmeter({ server: 'wishmeter', dir }, redis, async () => {});
  const client = target.redis as Redis;
  try {
    const empty = await settledMemory(client);
    await fillVisits(redis.url, visitors, 'visit');
    const counted = await settledMemory(client);
    await fillVisits(redis.url, visitors, 'resolve');
    const identified = await settledMemory(client);
    await untilWritten(client);
    return {
      visitors,
      target,
      bytesPerIdentity: (identified - counted) / visitors,
      bytesPerVisitor: (counted - empty) / visitors,
      pool: pools.add(`crowd-${visitors}`, ofVisits(visitsOf(drawn(POOL, visitors)), postVisit)),
      rounds: [],
      acknowledged: visitors,
    };
  } catch (error) {
    await target.stop();
    throw error;
  }
}

async function visit({ settings, say }: Bench, world: World): Promise<void> {
  const { pool, visitors, target } = world;
  const { port } = target;
  const first = world.acknowledged % pool.size;
  const warmedUp = await replay({ port, pool, first, requests: WARM_UP });
  const timed = await replay({ port, pool, first: first + warmedUp.answers, seconds: settings.seconds });
  world.acknowledged += warmedUp.answers + timed.answers;
  world.rounds.push(timed);
  say(`visits with ${visitors} visitors: ${Math.round(timed.perSecond)}/s, p99 ${timed.p99Ms.toFixed(1)} ms`);
}

async function prove({ target, acknowledged, visitors }: World): Promise<void> {
  const { sum } = await sumHashes(target.redis as Redis, createKeys('wm').visits('*.*'));
  same(`counts in Redis with ${visitors} visitors`, sum, acknowledged);
}
