// One `serve` with its real batcher in a virtual loop, before masters that are functions of time: no network, no
// sockets, no other processes. What a request and a call cost in CPU is the caller's.

import { ServiceError } from '../../src/errors.js';
import type { ScriptCall } from '../../src/redis/script-call.js';
import { Batcher } from '../../src/redis/batcher.js';
import { createKeys } from '../../src/redis/keys.js';
import type { Sender } from '../../src/redis/sender.js';
import { visitFormat, type VisitAnswer, type VisitEntry } from '../../src/visits/visit-batch.js';
import { createRandom } from '../demo/random.js';
import { percentile } from '../statistics.js';
import { VirtualLoop } from './virtual-loop.js';

/** CPU in µs: each call of the script costs the same again, whatever its size. */
export interface Prices {
  readonly serve: { readonly request: number; readonly call: number; readonly visit: number };
  readonly redis: { readonly call: number; readonly visit: number };
}

export interface Scenario {
  readonly masters: number;
  /** Requests of this process. */
  readonly perSecond: number;
  /** Part of the requests that read a count; all others are visits. */
  readonly reads: number;
  readonly seconds: number;
  readonly prices: Prices;
  /** False for the batcher without gaps between its calls. */
  readonly mayWait: boolean;
  /** Milliseconds of virtual time in which the first master does not answer. */
  readonly loss?: { readonly from: number; readonly to: number };
}

export interface Outcome {
  readonly perCall: number;
  readonly callsPerSecond: number;
  /** Milliseconds from a request's arrival until its answer. */
  readonly visitMs: Times;
  readonly readMs: Times;
  /** Part of a core that this process keeps busy, and its part of each master's core. */
  readonly serveBusy: number;
  readonly redisBusy: number;
  readonly refused: number;
  readonly mostPending: number;
}

interface Times {
  readonly p50: number;
  readonly p99: number;
}

/** Between two machines of a data centre. */
const ROUND_TRIP_MS = 0.3;
const TIMEOUT_MS = 500;
const MAX_PENDING = 20_000;
const LOST = 0;

export async function simulate(scenario: Scenario): Promise<Outcome> {
  const { masters, perSecond, reads, seconds, prices, mayWait, loss } = scenario;
  const loop = new VirtualLoop();
  const random = createRandom(1);
  const took = { visit: [] as number[], read: [] as number[] };
  let [calls, sent, refused, mostPending] = [0, 0, 0, 0];
  const isLost = (master: number) =>
    loss !== undefined && master === LOST && loop.now >= loss.from && loop.now < loss.to;
  const freeAt = new Array<number>(masters).fill(0);
  let batch: readonly VisitEntry[] = [];

  const send = (_: ScriptCall, deadline: number) => {
    const master = Number(batch[0]?.profileId);
    const size = batch.length;
    calls++;
    sent += size;
    loop.spend((prices.serve.call + size * prices.serve.visit) / 1_000);
    return new Promise((resolve, reject) => {
      const arrive = () => {
        // Sender waits for a master that is away, until the deadline.
        if (isLost(master)) {
          const at = Math.min(deadline, loss?.to ?? deadline);
          const isOver = at === deadline;
          loop.onSocket(at, isOver ? () => reject(new ServiceError('unavailable')) : arrive);
          return;
        }
        const begins = Math.max(loop.now + ROUND_TRIP_MS / 2, freeAt[master] as number);
        freeAt[master] = begins + (prices.redis.call + size * prices.redis.visit) / 1_000;
        loop.onSocket((freeAt[master] as number) + ROUND_TRIP_MS / 2, () => resolve([]));
      };
      arrive();
    });
  };
  const keys = createKeys('wm');
  const format = {
    ...visitFormat({ keys, maxProducts: 1_000, guestsS: 0 }),
    ...(mayWait ? {} : { mayWait: () => false }),
    tag: ({ profileId }: VisitEntry) => profileId,
    encode: (entries: readonly VisitEntry[]) => {
      batch = entries;
    },
    decode: (entries: readonly VisitEntry[]) => entries.map(() => 1),
  };
  const batcher = new Batcher<VisitEntry, VisitAnswer>(format, {
    sender: { send } as unknown as Sender,
    health: {
      isCircuitOpen: false,
      // As of a master whose connection is closed.
      addressOf: (tag) => (isLost(Number(tag)) ? undefined : `node:${tag}`),
      refreshSlots: () => {},
    },
    senderChannelKey: keys.senderChannel,
    nodeTag: () => undefined,
    isCluster: masters > 1,
    timeoutMs: TIMEOUT_MS,
    maxPending: MAX_PENDING,
  });

  const end = seconds * 1_000;
  const arrive = (at: number) => {
    const kind = random.chance(reads) ? 'read' : 'visit';
    const profileId = String(Math.floor(random.next() * masters));
    loop.spend(prices.serve.request / 1_000);
    const entry = { kind, handle: 'x', device: null, profileId, session: '', linkId: '' } as never;
    batcher.run(entry).then(
      () => took[kind].push(loop.now - at),
      () => refused++,
    );
    mostPending = Math.max(mostPending, batcher.pending);
    const next = at + (-Math.log(1 - random.next()) * 1_000) / perSecond;
    if (next < end) loop.onSocket(next, () => arrive(next));
  };
  loop.onSocket(0, () => arrive(0));
  await loop.run(end);
  return {
    perCall: sent / calls,
    callsPerSecond: calls / seconds,
    ...{ visitMs: timesOf(took.visit), readMs: timesOf(took.read) },
    serveBusy: loop.busyMs / end,
    redisBusy: (calls * prices.redis.call + sent * prices.redis.visit) / 1_000 / end / masters,
    ...{ refused, mostPending },
  };
}

function timesOf(times: readonly number[]): Times {
  const sorted = times.toSorted((a, b) => a - b);
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) };
}
