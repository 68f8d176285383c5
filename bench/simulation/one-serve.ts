// One `serve` in virtual time: the program's batcher, before masters that are functions of time. There is no network,
// no HTTP and no other process; the caller says what requests and calls cost.

import { ServiceError } from '../../src/errors.js';
import { Batcher } from '../../src/redis/batcher.js';
import { createKeys } from '../../src/redis/keys.js';
import { ownLocation } from '../../src/redis/location.js';
import type { ScriptCall } from '../../src/redis/script-call.js';
import type { Sender } from '../../src/redis/sender.js';
import { type VisitAnswer, type VisitEntry, visitFormat } from '../../src/visits/visit-batch.js';
import { createRandom } from '../demo/random.js';
import { percentile } from '../statistics.js';
import { VirtualLoop } from './virtual-loop.js';

/** µs of CPU. */
export interface CallPrice {
  readonly call: number;
  readonly visit: number;
}

export interface Prices {
  readonly serve: CallPrice & { readonly request: number };
  readonly redis: CallPrice;
}

export interface Scenario {
  readonly masters: number;
  /** Requests of this process. */
  readonly perSecond: number;
  /** Part of the requests that read a count; the others are visits. */
  readonly reads: number;
  readonly seconds: number;
  readonly prices: Prices;
  /** False simulates a batcher whose visits never wait. */
  readonly mayWait: boolean;
  /** Milliseconds of virtual time between which a master is away. */
  readonly loss?: readonly [from: number, to: number];
}

export interface Outcome {
  readonly perCall: number;
  /** To one master. */
  readonly callsPerSecond: number;
  /** From a request's arrival until its answer. */
  readonly visitMs: Times;
  readonly readMs: Times;
  /** Busy part of a core: of this process, and of a master by this process's calls. */
  readonly serveCpu: number;
  readonly masterCpu: number;
  readonly refused: number;
  readonly mostPending: number;
  /** Visits and calls to the lost master that it has answered when it was back. */
  readonly after: { readonly visits: number; readonly calls: number };
}

interface Times {
  readonly p50: number;
  readonly p99: number;
}

/** Between machines of a data centre. */
const ROUND_TRIP_MS = 0.3;
const TIMEOUT_MS = 500;
const MAX_PENDING = 20_000;
const BUCKETS = 16_384;
const LOST = 0;

const keys = createKeys('wm');
const FORMAT = visitFormat({ keys, maxProducts: 1_000, guestsS: 0 });

export async function simulate(scenario: Scenario): Promise<Outcome> {
  const { masters, perSecond, reads, seconds, prices, mayWait, loss = [0, 0] } = scenario;
  const loop = new VirtualLoop();
  const random = createRandom(1);
  const took = { visit: [] as number[], read: [] as number[] };
  const after = { visits: 0, calls: 0 };
  let [calls, sent, refused, mostPending] = [0, 0, 0, 0];
  const masterOf = (tag: string) => Number(tag) % masters;
  const [from, to] = loss;
  const isAway = (master: number) => master === LOST && loop.now >= from && loop.now < to;
  const freeAt = new Array<number>(masters).fill(0);
  const receive = (master: number, size: number) => {
    const begins = Math.max(loop.now + ROUND_TRIP_MS / 2, freeAt[master] as number);
    const ends = begins + (prices.redis.call + size * prices.redis.visit) / 1_000;
    freeAt[master] = ends;
    return ends + ROUND_TRIP_MS / 2;
  };

  let batch: readonly VisitEntry[] = [];
  const send = (_: ScriptCall, deadline: number) => {
    const master = masterOf(batch[0]?.profileId ?? '');
    const size = batch.length;
    calls++;
    sent += size;
    loop.spend((prices.serve.call + size * prices.serve.visit) / 1_000);
    return new Promise((resolve, reject) => {
      const answer = () => loop.onSocket(receive(master, size), () => resolve([]));
      if (!isAway(master)) return answer();
      // As RedisHealth.untilUp does.
      const isOver = loop.now - from > TIMEOUT_MS;
      if (isOver || deadline < to) {
        const refuse = () => reject(new ServiceError('unavailable'));
        return loop.onSocket(isOver ? loop.now : deadline, refuse);
      }
      after.visits += size;
      after.calls++;
      loop.onSocket(to, answer);
    });
  };
  const format = {
    ...FORMAT,
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
      addressOf: (tag) => (isAway(masterOf(tag)) ? undefined : `node:${masterOf(tag)}`),
      refreshSlots: () => {},
    },
    senderChannelKey: keys.senderChannel,
    nodeTag: () => undefined,
    isCluster: masters > 1,
    timeoutMs: TIMEOUT_MS,
    maxPending: MAX_PENDING,
  });

  const end = seconds * 1_000;
  const arriveAt = (at: number) => {
    if (at < end) loop.onSocket(at, () => arrive(at));
  };
  const arrive = (at: number) => {
    loop.spend(prices.serve.request / 1_000);
    const kind = random.chance(reads) ? 'read' : 'visit';
    const location = ownLocation(String(Math.floor(random.next() * BUCKETS)));
    batcher.run({ ...location, kind, handle: 'x', device: null }).then(
      () => took[kind].push(loop.now - at),
      () => refused++,
    );
    mostPending = Math.max(mostPending, batcher.pending);
    arriveAt(at - (Math.log(1 - random.next()) * 1_000) / perSecond);
  };
  arriveAt(0);
  await loop.run();
  return {
    perCall: sent / calls,
    callsPerSecond: calls / seconds / masters,
    ...{ visitMs: timesOf(took.visit), readMs: timesOf(took.read) },
    serveCpu: loop.busyMs / end,
    masterCpu: (calls * prices.redis.call + sent * prices.redis.visit) / 1_000 / end / masters,
    ...{ refused, mostPending, after },
  };
}

function timesOf(times: readonly number[]): Times {
  const sorted = times.toSorted((a, b) => a - b);
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) };
}
