// Sends what waits for one receiver beside one stream: up to AT_ONCE deliveries at the same time.
//
//   take ──▶ in flight ──▶ settled: gone from Redis, due again, or a dead letter
//
// No more are taken than can be sent at once, under a lease that is longer than an attempt. A process that dies anywhere leaves
// the delivery in Redis, and any process sends it again when the lease has ended.

import type { Logger } from 'pino';
import { backoffMs, pause } from '../backoff.js';
import { type Attempted, type AttemptSpec, attempt } from './attempt.js';
import { parseLine } from './message.js';
import { ANSWER_MS, AT_ONCE, Connection } from './post.js';
import type { DeliveryQueue, Taken } from './queue.js';
import type { Receiver } from './receiver.js';
import type { Receivers } from './receivers.js';

/** How long a lease is, beyond what an answer may take: Redis is asked before and after. */
const LEASE_GRACE_MS = 15_000;
/** How often new deliveries are looked for while there are none. */
const POLL_MS = 200;
const FAILING_MS = 5 * 24 * 60 * 60_000;

export interface SenderSpec extends AttemptSpec {
  readonly receivers: Receivers;
  /** Milliseconds that an answer may take; of post.ts where absent. */
  readonly answerMs?: number | undefined;
  /** Milliseconds for which a delivery is given to no other process; what `answerMs` needs where absent. */
  readonly leaseMs?: number | undefined;
  /** Milliseconds without a success after which a receiver is disabled. */
  readonly failingMs?: number | undefined;
}

export class ReceiverSender {
  readonly #spec: SenderSpec;
  readonly #queue: DeliveryQueue;
  readonly #log: Logger;
  readonly #connection: Connection;
  readonly #leaseMs: number;
  #receiver: Receiver;
  #isEnding = false;
  #inFlight = 0;
  /** Have ended, and are not recorded yet. */
  readonly #settled: Attempted[] = [];
  #wake: () => void = () => {};

  constructor(spec: SenderSpec, receiver: Receiver, queue: DeliveryQueue, log: Logger) {
    this.#spec = spec;
    this.#receiver = receiver;
    this.#queue = queue;
    this.#log = log.child({ receiver: receiver.id });
    this.#connection = new Connection(spec.receivers.addresses, spec.answerMs);
    this.#leaseMs = spec.leaseMs ?? (spec.answerMs ?? ANSWER_MS) + LEASE_GRACE_MS;
  }

  get receiver(): Receiver {
    return this.#receiver;
  }

  /** What the next attempts are for: its address or its secret may be another one. It ends when it is disabled. */
  update(receiver: Receiver): void {
    this.#receiver = receiver;
    if (!receiver.isEnabled) this.end();
  }

  /** Takes no more; `run` ends once what is in flight is settled. */
  end(): void {
    this.#isEnding = true;
    this.#wake();
  }

  /** Never throws. @param halt drops what is in flight */
  async run(halt: AbortSignal): Promise<void> {
    const drop = () => this.#connection.close();
    halt.addEventListener('abort', drop);
    let failures = 0;
    while (!halt.aborted && (!this.#isEnding || this.#inFlight + this.#settled.length > 0)) {
      try {
        // In this order: what is not recorded although its lease has ended would be taken once more.
        const [hasSettled, hasTaken] = await Promise.all([this.#settle(), this.#take()]);
        failures = 0;
        if (!hasSettled && !hasTaken) await this.#nap();
      } catch (error) {
        failures++;
        this.#log.warn({ err: error, failures }, 'Redis failed and will be asked again');
        await pause(backoffMs(failures), halt);
      }
    }
    halt.removeEventListener('abort', drop);
    this.#connection.close();
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

  /** Sends as many as may be in flight. @returns whether there were any */
  async #take(): Promise<boolean> {
    const room = AT_ONCE - this.#inFlight;
    if (room === 0 || this.#isEnding) return false;
    const taken = await this.#queue.take(room, this.#leaseMs);
    for (const one of taken) this.#send(one);
    return taken.length > 0;
  }

  #send({ id, attempts, line: text }: Taken): void {
    const line = parseLine(text);
    if (line === undefined) {
      this.#settled.push({ id, outcome: 'dead', why: 'not the line of an event' });
      return;
    }
    this.#inFlight++;
    void attempt(this.#spec, this.#queue, this.#connection, this.#receiver, { id, attempts, line })
      .then((tried) => {
        if (tried !== undefined) this.#settled.push(tried);
      })
      .catch((error) => {
        this.#log.warn({ err: error }, 'Redis failed: a delivery is due again when its lease ends');
      })
      .finally(() => {
        this.#inFlight--;
        this.#wake();
      });
  }

  /** Records what became of deliveries. @returns whether there were any */
  async #settle(): Promise<boolean> {
    const settled = [...this.#settled];
    if (settled.length === 0) return false;
    const failingSince = await this.#queue.settle(settled);
    this.#settled.splice(0, settled.length);
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
    const { lastSuccessAt } = await this.#spec.receivers.standOf(this.#receiver.id);
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
}
