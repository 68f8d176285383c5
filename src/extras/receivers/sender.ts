// Sends the deliveries of one receiver at one stream, up to MAX_CONCURRENT at a time:
//
//   lease ──▶ send ──▶ record: delivered, retry, or dead letter
//
// It leases only deliveries that it sends right away, for longer than an attempt takes. If the process dies, any other process
// sends them again when the lease has ended.

import type { Logger } from 'pino';
import { backoffMs, pause } from '../../backoff.js';
import { type Attempted, type AttemptSpec, attempt } from './attempt.js';
import { parseLine } from './message.js';
import { ANSWER_MS, Connection, MAX_CONCURRENT } from './post.js';
import type { DeliveryQueue, Taken } from './queue.js';
import type { Receiver } from './receiver.js';
import type { Receivers } from './receivers.js';

/** A lease exceeds the time for an answer by so much, for calls of Redis before and after. */
const LEASE_GRACE_MS = 15_000;
/** Interval of the check for new deliveries. */
const POLL_MS = 200;
const FAILING_MS = 5 * 24 * 60 * 60_000;

export interface SenderSpec extends AttemptSpec {
  readonly receivers: Receivers;
  /** Other than ANSWER_MS in tests. */
  readonly answerMs?: number | undefined;
  /** Milliseconds of a lease, other than the default in tests. */
  readonly leaseMs?: number | undefined;
  /** A receiver is disabled after so many milliseconds without a success; other than FAILING_MS in tests. */
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
  /** Results that are not recorded yet. */
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

  /** Changes URL, secret or state of the receiver for the next attempts. Ends if it is disabled. */
  update(receiver: Receiver): void {
    this.#receiver = receiver;
    if (!receiver.isEnabled) this.end();
  }

  /** Leases no more; `run` ends when all results are recorded. */
  end(): void {
    this.#isEnding = true;
    this.#wake();
  }

  /** Never throws. @param abort drops deliveries in flight */
  async run(abort: AbortSignal): Promise<void> {
    const drop = () => this.#connection.close();
    abort.addEventListener('abort', drop);
    let failures = 0;
    while (!abort.aborted && (!this.#isEnding || this.#inFlight + this.#settled.length > 0)) {
      try {
        // Results first: a delivery that is not recorded when its lease ends would be sent again.
        const [hasSettled, hasTaken] = await Promise.all([this.#settle(), this.#take()]);
        failures = 0;
        if (!hasSettled && !hasTaken) await this.#nap();
      } catch (error) {
        failures++;
        this.#log.warn({ err: error, failures }, 'Redis failed and will be asked again');
        await pause(backoffMs(failures), abort);
      }
    }
    abort.removeEventListener('abort', drop);
    this.#connection.close();
  }

  /** Waits for a result, or for POLL_MS. */
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

  /** Fills the free slots. @returns false if there was nothing to send */
  async #take(): Promise<boolean> {
    const room = MAX_CONCURRENT - this.#inFlight;
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
    const destination = { queue: this.#queue, connection: this.#connection, receiver: this.#receiver };
    void attempt(this.#spec, destination, { id, attempts, line })
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

  /** Records results. @returns false if there were none */
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

  /** Disables the receiver if no stream has had a success for so long. */
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
      // It was removed, or Redis is away: the next failure disables it.
      this.#log.warn({ err: error }, 'a receiver was not disabled');
    }
  }
}
