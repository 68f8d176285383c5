// Sends what waits for one receiver beside one stream, while this process owns that: up to AT_ONCE deliveries at the same
// time, of each profile one after the other. What failed and is due again goes before what is new.
//
//   read ──▶ waiting ──its profile has none in flight──▶ in flight ──▶ settled: gone from Redis, due again, or a dead letter
//
// A crash anywhere leaves the delivery in Redis, and the next owner reads it again.

import type { Logger } from 'pino';
import { backoffMs, pause } from '../backoff.js';
import type { Lease } from '../flush/owned-stream.js';
import { FencedError } from '../flush/ownership.js';
import { type Attempted, type AttemptSpec, attempt, type Held } from './attempt.js';
import { parseLine } from './message.js';
import { AT_ONCE, Connection } from './post.js';
import type { DeliveryQueue } from './queue.js';
import type { Receiver } from './receiver.js';
import type { Receivers } from './receivers.js';

/** Deliveries that are read at a time, and that wait at least while there are more. */
const PAGE = 128;
/** How often new deliveries are looked for, where none wait. */
const POLL_MS = 200;
const FAILING_MS = 5 * 24 * 60 * 60_000;

export interface SenderSpec extends AttemptSpec {
  readonly receivers: Receivers;
  /** Milliseconds that an answer may take; of post.ts where absent. */
  readonly answerMs?: number | undefined;
  /** Milliseconds without a success after which a receiver is disabled. */
  readonly failingMs?: number | undefined;
}

export class ReceiverSender {
  readonly #spec: SenderSpec;
  readonly #queue: DeliveryQueue;
  readonly #lease: Lease;
  readonly #log: Logger;
  readonly #connection: Connection;
  #receiver: Receiver;
  #isEnding = false;
  /** Id of the last delivery that was read. */
  #last = '-';
  /** Ids of those that are read and not settled. */
  readonly #held = new Set<string>();
  /** Those of them that are not in flight, in their order. */
  readonly #waiting = new Set<Held>();
  /** Profiles that have a delivery in flight. */
  readonly #busy = new Set<string>();
  #settled: Attempted[] = [];
  #wake: () => void = () => {};

  constructor(spec: SenderSpec, receiver: Receiver, queue: DeliveryQueue, lease: Lease, log: Logger) {
    this.#spec = spec;
    this.#receiver = receiver;
    this.#queue = queue;
    this.#lease = lease;
    this.#log = log.child({ receiver: receiver.id });
    this.#connection = new Connection(spec.receivers.addresses, spec.answerMs);
  }

  /** What the next attempts are for: its address or its secret may be another one. */
  update(receiver: Receiver): void {
    this.#receiver = receiver;
  }

  /** Ends once what is in flight is settled. */
  end(): void {
    this.#isEnding = true;
    this.#wake();
  }

  /** @throws FencedError once another process owns the stream */
  async run(): Promise<void> {
    const { ending, over } = this.#lease;
    const wake = () => this.#wake();
    const drop = () => this.#connection.close();
    ending.addEventListener('abort', wake);
    over.addEventListener('abort', drop);
    try {
      while (!ending.aborted && !this.#isEnding) {
        const hasRead = this.#waiting.size < PAGE && (await this.#untilRedisAnswers(() => this.#read()));
        this.#dispatch();
        const hasSettled = await this.#settle();
        if (!hasRead && !hasSettled) await this.#nap();
      }
      while ((this.#busy.size > 0 || this.#settled.length > 0) && !over.aborted) {
        await this.#nap();
        await this.#settle();
      }
    } finally {
      ending.removeEventListener('abort', wake);
      over.removeEventListener('abort', drop);
      this.#connection.close();
    }
  }

  /** Until a delivery has ended, or there may be new ones. */
  #nap(): Promise<void> {
    if (this.#settled.length > 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, POLL_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** @returns whether there may be more */
  async #read(): Promise<boolean> {
    const { last, found } = await this.#queue.next(this.#lease.epoch, this.#last, PAGE);
    const hasMore = last !== this.#last;
    this.#last = last;
    const fresh = found.filter(({ id }) => !this.#held.has(id));
    for (const { id, attempts, line } of fresh) {
      const parsed = parseLine(line);
      if (parsed === undefined) {
        this.#settled.push({ id, outcome: 'dead', why: 'not the line of an event' });
        continue;
      }
      this.#held.add(id);
      this.#waiting.add({ id, attempts, line: parsed });
    }
    return hasMore || fresh.length > 0;
  }

  /** Sends what may be sent now. */
  #dispatch(): void {
    if (this.#lease.ending.aborted || this.#isEnding) return;
    for (const held of this.#waiting) {
      if (this.#busy.size === AT_ONCE) return;
      const { profile_id } = held.line;
      if (this.#busy.has(profile_id)) continue;
      this.#waiting.delete(held);
      this.#busy.add(profile_id);
      void this.#deliver(held).finally(() => {
        this.#busy.delete(profile_id);
        this.#dispatch();
        this.#wake();
      });
    }
  }

  /** Never throws. */
  async #deliver(held: Held): Promise<void> {
    try {
      const tried = await this.#untilRedisAnswers(() =>
        attempt(this.#spec, this.#queue, this.#connection, this.#receiver, held),
      );
      if (tried !== undefined) this.#settled.push(tried);
    } catch (error) {
      // The lease is over: the delivery stays in Redis.
      this.#log.debug({ err: error }, 'a delivery was not tried');
    }
  }

  /** Records what became of deliveries. @returns whether there were any */
  async #settle(): Promise<boolean> {
    const settled = this.#settled;
    if (settled.length === 0) return false;
    this.#settled = [];
    const failingSince = await this.#untilRedisAnswers(() => this.#queue.settle(this.#lease.epoch, settled));
    for (const { id } of settled) this.#held.delete(id);
    await this.#spec.onStep?.('settled');
    const dead = settled.filter(({ outcome }) => outcome === 'dead').length;
    if (dead > 0) this.#log.warn({ deliveries: dead }, 'deliveries failed for good and are dead letters');
    const { failingMs = FAILING_MS } = this.#spec;
    if (settled.some(({ isGone }) => isGone)) await this.#disable('it answered 410');
    else if (failingSince > 0 && Date.now() - failingSince > failingMs) await this.#disableFailing(failingMs);
    return true;
  }

  /** Where no stream has had a success for so long. */
  async #disableFailing(failingMs: number): Promise<void> {
    const { lastSuccessAt } = await this.#untilRedisAnswers(() =>
      this.#spec.receivers.standOf(this.#receiver.id),
    );
    if (Date.now() - lastSuccessAt > failingMs) await this.#disable('no delivery succeeded for five days');
  }

  async #disable(why: string): Promise<void> {
    if (this.#isEnding) return;
    this.end();
    try {
      await this.#spec.receivers.change(this.#receiver.id, { isEnabled: false, disabledWhy: why });
      this.#log.error({ why }, 'a receiver is disabled: it is sent nothing until it is resumed');
    } catch (error) {
      // Removed meanwhile, or Redis is away: the next failure disables it.
      this.#log.warn({ err: error }, 'a receiver was not disabled');
    }
  }

  /** Tries again while Redis is away. @throws FencedError; the last error once the lease is over */
  async #untilRedisAnswers<T>(act: () => Promise<T>): Promise<T> {
    for (let failures = 1; ; failures++) {
      try {
        return await act();
      } catch (error) {
        if (error instanceof FencedError || this.#lease.over.aborted) throw error;
        this.#log.warn({ err: error, failures }, 'Redis failed and will be asked again');
        await pause(backoffMs(failures), this.#lease.over);
      }
    }
  }
}
