// One script call for all the operations of an event-loop turn, applied exactly once.
//
//   add ──▶ waiting ──▶ (end of the turn or a full batch, a lane is free) ──▶ in flight ──▶ settled
//              ▲                                                  │ connection lost: the same
//              └── turn after turn while all lanes are busy       └─ batch again, same number
//
// A lane has one batch in flight. Batches of a lane are numbered; the script remembers the last number it
// applied with its answer, so a batch whose reply was lost is sent again under its number and answers as
// the first time, and a late copy of an older one is refused. While a lane waits, the next batch fills:
// the busier Redis is, the larger the batches.
//
// On a cluster a batch may only touch one slot: operations are grouped by hash tag, with lanes for each.
// On a single server, scripts that can mix tags have one group for everything.
//
// Nothing waits longer than the timeout, and once Redis is known to be away nothing waits at all: the promise
// is rejected with `unavailable`. A batch carries a deadline for Redis, a little before ours because the reply
// has to come back, too: a server that wakes up later does not apply it.

import { randomBytes } from 'node:crypto';
import { LUA, ServiceError } from '../errors.js';
import type { RedisClient } from './client.js';
import type { RedisClock } from './clock.js';
import { isPassing, toServiceError } from './failures.js';
import type { Presence } from './presence.js';
import { ScriptCall } from './script-call.js';
import { isNoScript, type Script } from './scripts.js';

/** How the operations of one script are laid out. The first key and the first three arguments are the batcher's. */
export interface BatchFormat<Op, Answer> {
  readonly script: Script;
  /** Hash tag of the slot that the operation's keys live in. */
  tag(op: Op): string;
  /** Whether a batch may mix tags where the server allows it (one that is no cluster). */
  readonly mixesTags: boolean;
  /** Whether the operation changes anything; a batch of reads needs no record. */
  writes(op: Op): boolean;
  /** Characters that the operation brings along, where they may be many: bounds a batch beside its count. */
  size?(op: Op): number;
  /** Gives the call the keys and arguments of a batch. */
  encode(ops: readonly Op[], call: ScriptCall): void;
  /** The script's reply -> one answer per operation, in order. An Error rejects its operation. */
  decode(ops: readonly Op[], reply: unknown): readonly (Answer | Error)[];
}

export interface BatcherOptions {
  readonly client: RedisClient;
  readonly clock: RedisClock;
  readonly presence: Presence;
  /** Key of a lane's record. */
  laneKey(tag: string, lane: string): string;
  readonly isCluster: boolean;
  /** Milliseconds until an operation without an answer is rejected. */
  readonly timeoutMs: number;
  /** Operations waiting or in flight at which new ones are refused. */
  readonly maxPending: number;
  /** Told of each settled batch: operations in it, milliseconds until Redis answered. */
  readonly onBatch?: (size: number, ms: number) => void;
}

const LANES_PER_GROUP = 4;
const MAX_BATCH = 512;
/** Characters; a script that takes megabytes keeps everybody waiting, and so does reading them back. */
const MAX_BATCH_SIZE = 256 * 1024;
/** Share of the timeout that is kept for the way back, and for what clocks are told wrong by. */
const REPLY_SHARE = 0.2;
/** Seconds; far beyond any timeout, so that no copy of a batch can outlive its record. */
const LANE_MEMORY_S = 60;

interface Waiting<Op, Answer> {
  readonly op: Op;
  readonly deadline: number;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

interface Group<Op, Answer> {
  readonly tag: string;
  waiting: Waiting<Op, Answer>[];
  freeLanes: string[];
  busy: number;
}

export class Batcher<Op, Answer> {
  readonly #format: BatchFormat<Op, Answer>;
  readonly #options: BatcherOptions;
  readonly #groups = new Map<string, Group<Op, Answer>>();
  // Unique over restarts: a lane's numbers must never be met by another process's.
  readonly #id = randomBytes(6).toString('base64url');
  #sequence = 0;
  #pending = 0;
  #turnScheduled = false;
  /** Of whatever arrives in this turn. */
  #turnDeadline = 0;
  #closed = false;
  #onIdle: (() => void) | undefined;

  constructor(format: BatchFormat<Op, Answer>, options: BatcherOptions) {
    this.#format = format;
    this.#options = options;
  }

  /** Operations waiting or in flight. */
  get pending(): number {
    return this.#pending;
  }

  /** @throws ServiceError `unavailable` (no answer in time), `overloaded` (too much waiting), or what `decode` gave. */
  run(op: Op): Promise<Answer> {
    if (this.#closed || this.#options.presence.isHopeless)
      return Promise.reject(new ServiceError('unavailable'));
    if (this.#pending >= this.#options.maxPending) return Promise.reject(new ServiceError('overloaded'));
    this.#pending++;
    const tag = this.#format.mixesTags && !this.#options.isCluster ? 'all' : this.#format.tag(op);
    let group = this.#groups.get(tag);
    if (group === undefined) {
      const freeLanes = Array.from({ length: LANES_PER_GROUP }, (_, lane) => `${this.#id}${lane}`);
      group = { tag, waiting: [], freeLanes, busy: 0 };
      this.#groups.set(tag, group);
    }
    const { waiting } = group;
    if (!this.#turnScheduled) {
      this.#turnScheduled = true;
      this.#turnDeadline = performance.now() + this.#options.timeoutMs;
      setImmediate(this.#endOfTurn);
    }
    const deadline = this.#turnDeadline;
    return new Promise((resolve, reject) => {
      // A turn may bring thousands: Redis need not wait for the last of them.
      if (waiting.push({ op, deadline, resolve, reject }) >= MAX_BATCH) this.#sendWithinTurn(group);
    });
  }

  /** Refuses new operations and resolves when those under way are settled. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#pending === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  readonly #endOfTurn = (): void => {
    this.#turnScheduled = false;
    for (const group of this.#groups.values()) this.#sendWaiting(group);
  };

  /** Refuses nobody: an answer in the middle of another request's turn would go out in pieces. */
  #sendWithinTurn(group: Group<Op, Answer>): void {
    this.#sendBatches(group);
    this.#turnDeadline = performance.now() + this.#options.timeoutMs;
  }

  #sendWaiting(group: Group<Op, Answer>): void {
    this.#dropLate(group);
    this.#sendBatches(group);
    // Tags of a cluster are many; an idle group is made anew when it is needed.
    if (group.busy === 0 && group.waiting.length === 0) this.#groups.delete(group.tag);
  }

  #sendBatches(group: Group<Op, Answer>): void {
    while (group.waiting.length > 0 && group.freeLanes.length > 0) {
      const lane = group.freeLanes.pop() as string;
      const count = this.#batchCount(group.waiting);
      const batch = count === group.waiting.length ? group.waiting : group.waiting.slice(0, count);
      group.waiting = count === group.waiting.length ? [] : group.waiting.slice(count);
      group.busy++;
      void this.#send(group, lane, batch);
    }
  }

  /** How many of those waiting go into the next batch: at least one. */
  #batchCount(waiting: readonly Waiting<Op, Answer>[]): number {
    const most = Math.min(waiting.length, MAX_BATCH);
    const { size } = this.#format;
    if (size === undefined) return most;
    let sum = 0;
    for (let count = 0; count < most; count++) {
      sum += size((waiting[count] as Waiting<Op, Answer>).op);
      if (sum > MAX_BATCH_SIZE && count > 0) return count;
    }
    return most;
  }

  /** What waited for a lane until its deadline is refused without being sent. */
  #dropLate(group: Group<Op, Answer>): void {
    const now = performance.now();
    let late = 0;
    for (const { deadline, reject } of group.waiting) {
      if (deadline > now) break;
      reject(new ServiceError('unavailable'));
      late++;
    }
    if (late > 0) {
      group.waiting = group.waiting.slice(late);
      this.#pending -= late;
    }
  }

  async #send(group: Group<Op, Answer>, lane: string, batch: Waiting<Op, Answer>[]): Promise<void> {
    const { onBatch } = this.#options;
    const started = performance.now();
    const ops = batch.map((w) => w.op);
    const deadline = (batch[0] as Waiting<Op, Answer>).deadline;
    try {
      const sequence = ops.some(this.#format.writes) ? ++this.#sequence : 0;
      const call = new ScriptCall(this.#format.script, this.#options.laneKey(group.tag, lane));
      this.#format.encode(ops, call);
      const reply = await this.#callUntilAnswered(call, sequence, deadline);
      onBatch?.(ops.length, performance.now() - started);
      const answers = this.#format.decode(ops, reply);
      for (let i = 0; i < batch.length; i++) {
        const answer = answers[i] as Answer | Error;
        const { resolve, reject } = batch[i] as Waiting<Op, Answer>;
        if (answer instanceof Error) reject(answer);
        else resolve(answer);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error as Error);
    } finally {
      this.#pending -= batch.length;
      group.busy--;
      group.freeLanes.push(lane);
      this.#sendWaiting(group);
      if (this.#pending === 0) this.#onIdle?.();
    }
  }

  /** Sends the same call until Redis answers it or the deadline (of our monotonic clock) is past. */
  async #callUntilAnswered(call: ScriptCall, sequence: number, deadline: number): Promise<unknown> {
    const { client, clock, presence } = this.#options;
    let inFull = false;
    let remeasured = false;
    let forRedis = this.#inRedisTime(deadline);
    for (;;) {
      try {
        if (!presence.isUp && !(await up(presence, deadline))) throw new ServiceError('unavailable');
        const sent = call.send(client, inFull, [sequence, forRedis, LANE_MEMORY_S]);
        const reply = await before(deadline, sent);
        if (reply === LUA.SUPERSEDED) throw new ServiceError('unavailable');
        if (reply !== LUA.EXPIRED) return reply;
        // Either we were slow, or a clock jumped since it was measured: that can be told apart once.
        if (remeasured || performance.now() >= deadline) throw new ServiceError('unavailable');
        remeasured = true;
        await clock.measure(client);
        forRedis = this.#inRedisTime(deadline);
      } catch (error) {
        if (error instanceof ServiceError) throw error;
        if (isNoScript(error)) {
          inFull = true;
          continue;
        }
        if (!isPassing(error as Error) || !(await up(presence, deadline)))
          throw toServiceError(error as Error);
      }
    }
  }

  /** Until when Redis may apply a batch: what it would apply later may be answered as refused. */
  #inRedisTime(deadline: number): number {
    const { clock, timeoutMs } = this.#options;
    return Math.floor(clock.at(deadline) - timeoutMs * REPLY_SHARE);
  }
}

/** The client's own time-out begins with the call, but a batch may have waited for its lane. */
function before<T>(deadline: number, call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new ServiceError('unavailable'));
    const timer = setTimeout(late, deadline - performance.now());
    call.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

const POLL_MS = 5;

/** Waits until Redis may be used again; false where the deadline comes first, or there is no use in waiting. */
async function up(presence: Presence, deadline: number): Promise<boolean> {
  do {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (performance.now() >= deadline || presence.isHopeless) return false;
  } while (!presence.isUp);
  return true;
}
