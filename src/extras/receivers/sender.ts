// Sends the deliveries of one receiver at one stream. If the process dies, another process resends when the lease ends.

import type { Logger } from 'pino';
import { backoffMs, pause } from '../../backoff.js';
import { type Attempted, type AttemptSpec, attempt } from './attempt.js';
import { parseLine } from './message.js';
import { ANSWER_MS, Connection, MAX_CONCURRENT } from './post.js';
import type { DeliveryQueue, Taken } from './queue.js';
import type { Receiver } from './receiver.js';
import type { Receivers } from './receivers.js';

/** The part of a lease for Redis calls before and after the request. */
const LEASE_GRACE_MS = 15_000;
const POLL_MS = 200;
/** A receiver is disabled after this long without a success. */
const FAILING_MS = 5 * 24 * 60 * 60_000;

export interface SenderSpec extends AttemptSpec {
  readonly receivers: Receivers;
  readonly answerMs?: number | undefined;
  readonly leaseMs?: number | undefined;
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

  /** Uses the changed receiver for later attempts, or ends if it is disabled. */
  update(receiver: Receiver): void {
    this.#receiver = receiver;
    if (!receiver.isEnabled) this.end();
  }

  /** Stops leasing; `run` ends when all results are recorded. */
  end(): void {
    this.#isEnding = true;
    this.#wake();
  }

  /** Never rejects. @param abort drops deliveries in flight */
  async run(abort: AbortSignal): Promise<void> {
    const drop = () => this.#connection.close();
    abort.addEventListener('abort', drop);
    let failures = 0;
    while (!abort.aborted && (!this.#isEnding || this.#inFlight + this.#settled.length > 0)) {
      try {
        // If the lease ends before the result is recorded, the delivery is sent again.
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

  async #settle(): Promise<boolean> {
    const settled = [...this.#settled];
    if (settled.length === 0) return false;
    const failingSince = await this.#queue.settle(settled);
    this.#settled.splice(0, settled.length);
    await this.#spec.onStep?.('settled');
    const dead = settled.filter(({ outcome }) => outcome === 'dead').length;
    if (dead > 0) this.#log.warn({ deliveries: dead }, 'deliveries failed for good and are dead letters');
    if (settled.some(({ isGone }) => isGone)) await this.#disable('it answered 410');
    else if (failingSince > 0 && Date.now() - failingSince > FAILING_MS) await this.#disableFailing();
    return true;
  }

  /** Asks for all streams first, since another stream may have had a success. */
  async #disableFailing(): Promise<void> {
    const { lastSuccessAt } = await this.#spec.receivers.statusOf(this.#receiver.id);
    if (Date.now() - lastSuccessAt > FAILING_MS) await this.#disable('no delivery succeeded for five days');
  }

  async #disable(why: string): Promise<void> {
    if (this.#isEnding) return;
    this.end();
    try {
      await this.#spec.receivers.change(this.#receiver.id, { isEnabled: false, disabledWhy: why });
      this.#log.error({ why }, 'a receiver is disabled: it is sent nothing until it is resumed');
    } catch (error) {
      // If Redis failed, the next failed delivery tries again.
      this.#log.warn({ err: error }, 'a receiver was not disabled');
    }
  }
}
