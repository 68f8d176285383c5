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
// On a single server, scripts that can mix hash tags have one group for everything, and all others a group for each
// tag. On a cluster the former have a group for each master: their script may touch every slot of its node
// (allow-cross-slot-keys). An operation whose slot migrates, or has moved, comes back undone (NOT_HERE), and so does a batch if
// the slot of its node's stream migrates. Both are tried again until their deadline.
// What a call costs Redis hardly depends on its size, so a turn sends to one node, and the others wait for the next
// turns: batches are as large as those of one server, and an idle process has its next turn at once.
//
// Nothing waits longer than the timeout, and once Redis is known to be away nothing waits at all: the promise
// is rejected with `unavailable`. A batch carries a deadline for Redis, a little before ours because the reply
// has to come back, too: a server that wakes up later does not apply it. That deadline is the one of the batch's oldest
// operation, so that no operation is applied after its 503. An old operation does not take young ones down with it: an
// operation that Redis would refuse as late is refused before a batch is made, and all operations of a batch are about
// as old.

import { randomBytes } from 'node:crypto';
import { overloaded, ServiceError } from '../errors.js';
import { atEndOfTurn } from '../turn.js';
import {
  BatchCalls,
  type BatchCallsOptions,
  type Batched,
  type BatchFormat,
  type Kind,
} from './batch-calls.js';
import { REPLY_SHARE } from './deadline.js';
import { refusesWrites, toServiceError } from './failures.js';
import { NOT_HERE } from './sender.js';

export interface BatcherOptions extends BatchCallsOptions {
  /** Milliseconds until an operation without an answer is rejected. */
  readonly timeoutMs: number;
  /** Operations waiting or in flight at which new ones are refused. */
  readonly maxPending: number;
}

const LANES_PER_GROUP = 4;
/** Milliseconds after which an operation that was not done is tried again. */
const AGAIN_MS = 10;
const MAX_BATCH = 512;
/** Characters; a script that takes megabytes blocks all other callers, and so does reading them back. */
const MAX_BATCH_SIZE = 256 * 1024;
/** Share of the timeout by which the deadlines of a batch's operations may differ. */
const DEADLINE_SPREAD = 0.05;
/** The answer of an operation that was not done where all of its batch was sent. */
const AGAIN = Symbol('again');
/** The group of everything, on one server. */
const ALL = 'all';

type AnswerOf<Answer> = Answer | Error | typeof NOT_HERE | typeof AGAIN;

interface Group<Op> {
  readonly kind: Kind;
  /** A tag, a node's address, or ALL. */
  readonly to: string;
  /** By deadline, the earliest first. */
  waiting: Op[];
  freeLanes: string[];
  busy: number;
}

export class Batcher<Op extends Batched<Answer>, Answer> {
  readonly #format: BatchFormat<Op, Answer>;
  readonly #options: BatcherOptions;
  /** By where they go; each as long as it has something to send or to wait for. */
  readonly #groups = new Map<string, Group<Op>>();
  // Unique over restarts: a lane's numbers must never be met by another process's.
  readonly #id = randomBytes(6).toString('base64url');
  readonly #calls: BatchCalls<Op, Answer>;
  #pending = 0;
  #turnScheduled = false;
  /** Of what arrives in this turn. */
  #turnDeadline = 0;
  #closed = false;
  #onIdle: (() => void) | undefined;

  constructor(format: BatchFormat<Op, Answer>, options: BatcherOptions) {
    this.#format = format;
    this.#options = options;
    this.#calls = new BatchCalls(format, options);
  }

  /** Operations waiting or in flight. */
  get pending(): number {
    return this.#pending;
  }

  /** Tells the operation its answer, or a ServiceError: `unavailable`, `overloaded` at `maxPending`. Throws nothing. */
  add(op: Op): void {
    const { health, maxPending } = this.#options;
    if (this.#closed || health.isCircuitOpen) return void op.failed(new ServiceError('unavailable'));
    if (this.#pending >= maxPending) return void op.failed(overloaded('redis'));
    this.#pending++;
    this.#scheduleTurn();
    op.deadline = this.#turnDeadline;
    const group = this.#groupOf(op);
    // A turn may bring thousands: Redis need not wait for the last of them.
    if (group.waiting.push(op) >= MAX_BATCH) this.#sendWithinTurn(group);
  }

  /** `add`, as a promise. @param op without what tells it; it is the batcher's from now on @throws ServiceError as `add` */
  run(op: Omit<Op, keyof Batched<Answer>>): Promise<Answer> {
    return new Promise((done, failed) => {
      // Not a copy: that would cost more than all else here.
      const told = op as unknown as { -readonly [Name in keyof Op]: Op[Name] };
      told.deadline = 0;
      told.done = done;
      told.failed = failed;
      this.add(told);
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

  #scheduleTurn(): void {
    if (this.#turnScheduled) return;
    this.#turnScheduled = true;
    this.#turnDeadline = performance.now() + this.#options.timeoutMs;
    atEndOfTurn(this.#endOfTurn);
  }

  #groupOf(op: Op): Group<Op> {
    const { isCluster, health } = this.#options;
    if (!this.#format.mixesTags) return this.#group('tag', this.#format.tag(op));
    if (!isCluster) return this.#group('tag', ALL);
    const tag = this.#format.tag(op);
    const address = health.addressOf(tag);
    return address === undefined ? this.#group('tag', tag) : this.#group('node', address);
  }

  #group(kind: Kind, to: string): Group<Op> {
    const known = this.#groups.get(to);
    if (known !== undefined) return known;
    // Groups of several kinds may have their records under one tag.
    const freeLanes = Array.from({ length: LANES_PER_GROUP }, (_, lane) => `${this.#id}${kind[0]}${lane}`);
    const group: Group<Op> = { kind, to, waiting: [], freeLanes, busy: 0 };
    this.#groups.set(to, group);
    return group;
  }

  readonly #endOfTurn = (): void => {
    this.#turnScheduled = false;
    let served: Group<Op> | undefined;
    for (const group of this.#groups.values()) {
      if (group.kind === 'node' && group.waiting.length > 0) {
        if (served !== undefined) {
          this.#scheduleTurn();
          continue;
        }
        if (group.freeLanes.length > 0) served = group;
      }
      this.#sendWaiting(group);
    }
    if (served === undefined || !this.#groups.delete(served.to)) return;
    this.#groups.set(served.to, served); // the others come first in the next turn
  };

  /** Refuses no operation: an answer in the middle of another request's turn would go out in pieces. */
  #sendWithinTurn(group: Group<Op>): void {
    this.#sendBatches(group);
    this.#turnDeadline = performance.now() + this.#options.timeoutMs;
  }

  #sendWaiting(group: Group<Op>): void {
    this.#dropLate(group);
    this.#sendBatches(group);
    // Tags of a cluster are many; an idle group is made anew when it is needed.
    if (group.busy === 0 && group.waiting.length === 0) this.#groups.delete(group.to);
  }

  #sendBatches(group: Group<Op>): void {
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
  #batchCount(waiting: readonly Op[]): number {
    let most = Math.min(waiting.length, MAX_BATCH);
    const latest = (waiting[0] as Op).deadline + this.#options.timeoutMs * DEADLINE_SPREAD;
    while ((waiting[most - 1] as Op).deadline > latest) most--;
    if (this.#format.size === undefined) return most;
    let sum = 0;
    for (let count = 0; count < most; count++) {
      sum += this.#format.size(waiting[count] as Op);
      if (sum > MAX_BATCH_SIZE && count > 0) return count;
    }
    return most;
  }

  /** What waited for a lane for so long that Redis would not apply it is refused without being sent. */
  #dropLate(group: Group<Op>): void {
    const earliest = performance.now() + this.#options.timeoutMs * REPLY_SHARE;
    let late = 0;
    while (late < group.waiting.length && (group.waiting[late] as Op).deadline <= earliest) late++;
    if (late === 0) return;
    for (const op of group.waiting.splice(0, late)) op.failed(new ServiceError('unavailable'));
    this.#settled(late);
  }

  #settled(operations: number): void {
    this.#pending -= operations;
    if (this.#pending === 0) this.#onIdle?.();
  }

  async #send(group: Group<Op>, lane: string, batch: Op[]): Promise<void> {
    let answers: readonly AnswerOf<Answer>[];
    try {
      const { kind, to } = group;
      answers = (await this.#calls.ask(kind, to, lane, batch)) ?? new Array(batch.length).fill(AGAIN);
    } catch (error) {
      answers = await this.#refused(group, lane, batch, error as Error);
    }
    group.busy--;
    group.freeLanes.push(lane);
    // Before those are told that have their answers: Redis need not wait for that.
    if (group.kind !== 'node') this.#sendWaiting(group);
    else if (group.waiting.length > 0) this.#scheduleTurn();
    for (let i = 0; i < batch.length; i++) this.#settle(batch[i] as Op, answers[i] as Answer);
  }

  /** A Redis that takes no writes refuses a batch as a whole if one of it writes: the reads are sent again without those. */
  async #refused({ kind, to }: Group<Op>, lane: string, batch: readonly Op[], error: Error) {
    const { writes } = this.#format;
    const refused = (of: readonly Op[], by: Error): AnswerOf<Answer>[] => new Array(of.length).fill(by);
    const reads = refusesWrites(error) ? batch.filter((op) => !writes(op)) : [];
    if (reads.length === 0 || reads.length === batch.length) return refused(batch, error);
    const asked = this.#calls.ask(kind, to, lane, reads).catch((failed) => refused(reads, failed));
    const answers = ((await asked) ?? new Array(reads.length).fill(AGAIN)).values();
    return batch.map((op): AnswerOf<Answer> => (writes(op) ? error : answers.next().value));
  }

  #addAgain(group: Group<Op>, op: Op): void {
    this.#scheduleTurn();
    insertByDeadline(group.waiting, op);
  }

  #settle(op: Op, answer: AnswerOf<Answer>): void {
    if (answer === NOT_HERE || answer === AGAIN) {
      this.#options.health.refreshSlots();
      setTimeout(() => this.#addAgain(this.#groupOf(op), op), AGAIN_MS);
      return;
    }
    this.#settled(1);
    try {
      if (answer instanceof Error) op.failed(toServiceError(answer));
      else op.done(answer as Answer);
    } catch (error) {
      op.failed(error as Error);
    }
  }
}

function insertByDeadline<Op extends { readonly deadline: number }>(waiting: Op[], op: Op): void {
  let place = waiting.length;
  while (place > 0 && (waiting[place - 1] as Op).deadline > op.deadline) place--;
  waiting.splice(place, 0, op);
}
