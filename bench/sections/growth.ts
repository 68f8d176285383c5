// Growth: visits with few and with many guests in Redis, in turn, and the memory of a guest next to a plain hash's.

import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { identityName } from '../../src/identity-rules.js';
import { createProfileIds } from '../../src/profiles/profile-id.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Bench } from '../bench.js';
import { visit } from '../cases.js';
import { CATALOGUE, type Product } from '../demo/catalogue.js';
import { replay } from '../load/wrk.js';
import { same } from '../proofs/proof.js';
import { copiedVisitsProof, PROOF_VISIT, readCount } from '../proofs/visits.js';
import { settledMemory } from '../servers/redis.js';
import { startTarget } from '../servers/start.js';
import type { Target } from '../servers/target.js';
import { visiting } from '../traffic/pools.js';
import { sessionId } from '../traffic/requests.js';
import { Entrant } from './entrant.js';
import { type GroupResult, inOneStart, resultOf, runSlices } from './slices.js';

/** The log of visits does not grow with the guests. */
const UNLOGGED = { ...visit, isUnlogged: true } as const;

/** Of a deployment. */
const BUCKETS = 16_384;
/** Guests per call of the script: Redis answers nothing else meanwhile. */
const PAGE = 10_000;
/**
 * Copies a guest to the keys of visitors, and to ARGV[1] keys of the same length each: nobody visits as those guests.
 * Returns how many keys are new.
 */
const COPY = `
local copied = 0
for n = 2, #KEYS do
  copied = copied + redis.call('COPY', KEYS[1], KEYS[n])
  local like = string.sub(KEYS[n], 1, -4)
  for more = 1, tonumber(ARGV[1]) do
    copied = copied + redis.call('COPY', KEYS[1], like .. string.format('.%02d', more))
  end
end
return copied`;

const HASHES = `
for n = 1, tonumber(ARGV[1]) do
  redis.call('HINCRBY', string.format('visits:%036x', n), ARGV[2], 1)
end`;

export interface Growth {
  /** `few` and `many`. */
  readonly cases: GroupResult;
  /** Bytes in Redis of a guest with one counted product, TTL and all. */
  readonly guestBytes: number;
  /** Bytes of a hash named by a session, with that product as its one field: what a plain counter keeps. */
  readonly hashBytes: number;
}

export async function measureGrowth(bench: Bench): Promise<Growth> {
  const { settings, say } = bench;
  const memory = await measureMemory(bench);
  say(`a guest takes ${memory.guestBytes.toFixed(0)} B, a hash ${memory.hashBytes.toFixed(0)} B`);
  const entrants = (['few', 'many'] as const).map((crowd) => {
    const guests = settings.guests[crowd];
    const title = `visit, ${guests.toLocaleString('en')} guests`;
    const fill = (target: Target) => makeGuests(target, guests);
    const load = { load: crowd, before: [['all', crowd]], proof: copiedVisitsProof } as const;
    return new Entrant(bench, { ...UNLOGGED, ...load, name: crowd, title, fill });
  });
  await runSlices(inOneStart(bench), entrants);
  return { ...memory, cases: resultOf(entrants) };
}

/** Copies the proof's guest, whom the service made, in Redis: ten million visits over HTTP would take minutes. */
async function makeGuests({ redis, port }: Target, guests: number): Promise<void> {
  if (redis === undefined) throw new Error('there is no Redis');
  // A rewrite of the append-only file would take a core from the measurement.
  await redis.config('SET', 'auto-aof-rewrite-percentage', 0);
  const keys = createKeys('wm');
  const profileIds = createProfileIds((await redis.hget(keys.meta, 'salt')) ?? '', BUCKETS);
  const keyOf = (session: string) => keys.counts(profileIds.of(identityName('s', session)));
  const guest = keyOf(PROOF_VISIT.sessionId);
  const visitors = visiting(guests);
  const each = guests / visitors;
  const perCall = Math.ceil(PAGE / each);
  let copied = 0;
  for (let from = 0; from < visitors; from += perCall) {
    const length = Math.min(perCall, visitors - from);
    const page = Array.from({ length }, (_, n) => keyOf(sessionId(from + n)));
    copied += (await redis.eval(COPY, page.length + 1, guest, ...page, each - 1)) as number;
  }
  same('guests in Redis', copied, guests);
  const last = { ...PROOF_VISIT, sessionId: sessionId(visitors - 1) };
  same('count of the last guest', await readCount(port, last), await readCount(port, PROOF_VISIT));
}

async function measureMemory(bench: Bench): Promise<Pick<Growth, 'guestBytes' | 'hashBytes'>> {
  const { settings, folder } = bench;
  const pool = bench.pool('weighed');
  const dir = folder();
  const target = await startTarget({ ...UNLOGGED, dir: join(dir, 'guests') });
  const redis = target.redis as Redis;
  try {
    const empty = await settledMemory(redis);
    await replay({ port: target.port, pool, requests: pool.size });
    const counted = await settledMemory(redis);
    await redis.flushall();
    const flushed = await settledMemory(redis);
    await redis.eval(HASHES, 0, settings.weighed, (CATALOGUE[0] as Product).handle);
    const hashes = await settledMemory(redis);
    return {
      guestBytes: (counted - empty) / settings.weighed,
      hashBytes: (hashes - flushed) / settings.weighed,
    };
  } finally {
    await target.stop();
  }
}
