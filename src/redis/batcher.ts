// Sends a tick's operations in one script call, applied exactly once.
//
//   add ──▶ waiting ──▶ (end of the tick or a full batch, and a free channel) ──▶ in flight ──▶ answered
//              ▲                                                    │ connection lost: retry
//              └── tick after tick while all channels are busy      └─ with the same sequence number
//
// A sender channel (lua/includes/senderChannel.lua) has one batch in flight. On a cluster, scripts that can mix hash
// tags have channels per master, others per tag. Operations of a migrating slot come back undone, and are retried. A
// call costs about the same whatever its size, so a tick sends to one node only, and between two calls to a node there
// is a gap that grows with the number of nodes that are being called. Operations that may not wait (BatchFormat.mayWait)
// ignore the gap, and the others go with them.
//
// A batch carries the deadline of its oldest operation, minus the time for the reply.

import { randomBytes } from 'node:crypto';
import { overloaded, ServiceError } from '../errors.js';
import { atEndOfTick } from '../tick.js';
import {
  type AnswerOf,
  BatchCalls,
  type BatchCallsOptions,
  type Batched,
  type BatchFormat,
  type Kind,
} from './batch-calls.js';
import { REPLY_SHARE } from './deadline.js';
import { refusesWrites, toServiceError } from './failures.js';
import { LUA } from './lua-codes.js';

export interface BatcherOptions extends BatchCallsOptions {
  readonly timeoutMs: number;
  readonly maxPending: number;
}

const CHANNELS_PER_GROUP = 4;
const AGAIN_MS = 10;
const MAX_BATCH = 512;
/** Characters of a batch. Megabytes would block other callers. */
const MAX_BATCH_SIZE = 256 * 1024;
/** The gap between two calls to a node, per other node. bench/masters.ts measures the savings. */
const GAP_MS = 0.25;
const MAX_GAP_MS = 8;
/** A group of this size doesn't wait: each operation already has a small part of the call's cost. */
const ENOUGH = 8;
/** Deadlines in a batch differ by at most this part of the time-out. */
const DEADLINE_SPREAD = 0.05;
const ALL = 'all';

interface Group<Op> {
  readonly kind: Kind;
  readonly to: string;
  /** Ascending by deadline. */
  waiting: Op[];
  freeChannels: string[];
  busy: number;
  /** End of the gap after the last call, by `performance.now()`. */
  gapEnd: number;
}

export class Batcher<Op extends Batched<Answer>, Answer> {
  readonly #groups = new Map<string, Group<Op>>();
  // Unique across restarts: processes must not share a channel.
  readonly #id = randomBytes(6).toString('base64url');
  readonly #calls: BatchCalls<Op, Answer>;
  #pending = 0;
  #tickScheduled = false;
  #tickDeadline = 0;
  #wakeUp: NodeJS.Timeout | undefined;
  #closed = false;
  #onIdle: (() => void) | undefined;

  constructor(
    private readonly format: BatchFormat<Op, Answer>,
    private readonly options: BatcherOptions,
  ) {
    this.#calls = new BatchCalls(format, options);
  }

  get pending(): number {
    return this.#pending;
  }

  /** Calls `failed` with `unavailable`, or `overloaded` at `maxPending`. */
  add(op: Op): void {
    const { health, maxPending } = this.options;
    if (this.#closed || health.isCircuitOpen) return void op.failed(new ServiceError('unavailable'));
    if (this.#pending >= maxPending) return void op.failed(overloaded('redis'));
    this.#pending++;
    this.#scheduleTick();
    op.deadline = this.#tickDeadline;
    const group = this.#groupOf(op);
    if (group.waiting.push(op) >= MAX_BATCH) this.#sendWithinTick(group);
  }

  /** @param op belongs to the batcher from now on */
  run(op: Omit<Op, keyof Batched<Answer>>): Promise<Answer> {
    return new Promise((done, failed) => {
      // Changes `op` itself, because a copy would cost more than the rest.
      const batched = op as unknown as { -readonly [Name in keyof Op]: Op[Name] };
      batched.deadline = 0;
      batched.done = done;
      batched.failed = failed;
      this.add(batched);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#pending === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #scheduleTick(): void {
    if (this.#tickScheduled) return;
    this.#tickScheduled = true;
    this.#tickDeadline = performance.now() + this.options.timeoutMs;
    atEndOfTick(this.#endOfTick);
  }

  #groupOf(op: Op): Group<Op> {
    const { isCluster, health } = this.options;
    if (!this.format.mixesTags) return this.#group('tag', this.format.tag(op));
    if (!isCluster) return this.#group('tag', ALL);
    const tag = this.format.tag(op);
    const address = health.addressOf(tag);
    return address === undefined ? this.#group('tag', tag) : this.#group('node', address);
  }

  #group(kind: Kind, to: string): Group<Op> {
    const known = this.#groups.get(to);
    if (known !== undefined) return known;
    // Groups of both kinds may share a tag.
    const freeChannels = Array.from(
      { length: CHANNELS_PER_GROUP },
      (_, channel) => `${this.#id}${kind[0]}${channel}`,
    );
    const group: Group<Op> = { kind, to, waiting: [], freeChannels, busy: 0, gapEnd: 0 };
    this.#groups.set(to, group);
    return group;
  }

  readonly #endOfTick = (): void => {
    this.#tickScheduled = false;
    const now = performance.now();
    let served: Group<Op> | undefined;
    for (const group of this.#groups.values()) {
      if (group.kind === 'node' && group.waiting.length > 0) {
        if (group.gapEnd > now && this.#mayAllWait(group.waiting)) {
          this.#wakeUp ??= setTimeout(this.#onWakeUp, group.gapEnd - now);
          continue;
        }
        if (served !== undefined) {
          this.#scheduleTick();
          continue;
        }
        if (group.freeChannels.length > 0) served = group;
      }
      this.#sendWaiting(group, now);
    }
    if (served === undefined || !this.#groups.delete(served.to)) return;
    served.gapEnd = now + Math.min(MAX_GAP_MS, GAP_MS * this.#groups.size);
    this.#groups.set(served.to, served); // others come first in the next tick
  };

  #mayAllWait(waiting: readonly Op[]): boolean {
    const { mayWait } = this.format;
    return mayWait !== undefined && waiting.length < ENOUGH && waiting.every((op) => mayWait(op));
  }

  /** Makes a tick if no request does. All groups share the timer, because it fires within MAX_GAP_MS. */
  readonly #onWakeUp = (): void => {
    this.#wakeUp = undefined;
    this.#scheduleTick();
  };

  /** Doesn't call #dropLate: its answers would be written one by one within a tick. */
  #sendWithinTick(group: Group<Op>): void {
    this.#sendBatches(group);
    this.#tickDeadline = performance.now() + this.options.timeoutMs;
  }

  #sendWaiting(group: Group<Op>, now: number): void {
    this.#dropLate(group, now);
    this.#sendBatches(group);
    if (group.busy === 0 && group.waiting.length === 0 && group.gapEnd <= now) this.#groups.delete(group.to);
  }

  #sendBatches(group: Group<Op>): void {
    while (group.waiting.length > 0 && group.freeChannels.length > 0) {
      const channel = group.freeChannels.pop() as string;
      const count = this.#batchCount(group.waiting);
      const batch = count === group.waiting.length ? group.waiting : group.waiting.slice(0, count);
      group.waiting = count === group.waiting.length ? [] : group.waiting.slice(count);
      group.busy++;
      void this.#send(group, channel, batch);
    }
  }

  #batchCount(waiting: readonly Op[]): number {
    let most = Math.min(waiting.length, MAX_BATCH);
    const latest = (waiting[0] as Op).deadline + this.options.timeoutMs * DEADLINE_SPREAD;
    while ((waiting[most - 1] as Op).deadline > latest) most--;
    if (this.format.size === undefined) return most;
    let sum = 0;
    for (let count = 0; count < most; count++) {
      sum += this.format.size(waiting[count] as Op);
      if (sum > MAX_BATCH_SIZE && count > 0) return count;
    }
    return most;
  }

  #dropLate(group: Group<Op>, now: number): void {
    const earliest = now + this.options.timeoutMs * REPLY_SHARE;
    let late = 0;
    while (late < group.waiting.length && (group.waiting[late] as Op).deadline <= earliest) late++;
    if (late === 0) return;
    for (const op of group.waiting.splice(0, late)) op.failed(new ServiceError('unavailable'));
    this.#removePending(late);
  }

  #removePending(operations: number): void {
    this.#pending -= operations;
    if (this.#pending === 0) this.#onIdle?.();
  }

  async #send(group: Group<Op>, channel: string, batch: Op[]): Promise<void> {
    let answers: readonly AnswerOf<Answer>[];
    try {
      const { kind, to } = group;
      answers = await this.#calls.ask(kind, to, channel, batch);
    } catch (error) {
      answers = await this.#refused(group, channel, batch, error as Error);
    }
    group.busy--;
    group.freeChannels.push(channel);
    // The next batch is sent before this one is answered, so that Redis doesn't wait.
    if (group.kind !== 'node') this.#sendWaiting(group, performance.now());
    else if (group.waiting.length > 0) this.#scheduleTick();
    for (let i = 0; i < batch.length; i++) this.#resolve(batch[i] as Op, answers[i] as Answer);
  }

  /** A Redis that refuses writes refuses the whole batch: send its reads alone. */
  async #refused({ kind, to }: Group<Op>, channel: string, batch: readonly Op[], error: Error) {
    const { writes } = this.format;
    const refused = (of: readonly Op[], by: Error): AnswerOf<Answer>[] => new Array(of.length).fill(by);
    const reads = refusesWrites(error) ? batch.filter((op) => !writes(op)) : [];
    if (reads.length === 0 || reads.length === batch.length) return refused(batch, error);
    const asked = this.#calls.ask(kind, to, channel, reads).catch((failed) => refused(reads, failed));
    const answers = (await asked).values();
    return batch.map((op) => (writes(op) ? error : (answers.next().value as AnswerOf<Answer>)));
  }

  #addAgain(group: Group<Op>, op: Op): void {
    this.#scheduleTick();
    insertByDeadline(group.waiting, op);
  }

  #resolve(op: Op, answer: AnswerOf<Answer>): void {
    if (answer === LUA.NOT_HERE) {
      this.options.health.refreshSlots();
      setTimeout(() => this.#addAgain(this.#groupOf(op), op), AGAIN_MS);
      return;
    }
    this.#removePending(1);
    try {
      if (answer instanceof Error) op.failed(toServiceError(answer));
      else op.done(answer as Answer);
    } catch (error) {
      op.failed(error as Error);
    }
  }
}

function insertByDeadline<Op extends { readonly deadline: number }>(waiting: Op[], op: Op): void {
  let index = waiting.length;
  while (index > 0 && (waiting[index - 1] as Op).deadline > op.deadline) index--;
  waiting.splice(index, 0, op);
}
