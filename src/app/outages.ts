// Logs a line when an outage begins, every half minute, and when it has ended: a line per answer would be thousands a
// second.

import type { Logger } from 'pino';
import { ERRORS, type ErrorCode, type Overload } from '../errors.js';
import type { MasterState } from '../redis/health.js';

interface Outage {
  readonly describe: () => object;
  fields: object;
  readonly began: number;
  seen: number;
  logged: number | undefined;
  answers: number;
  /** Calls of `begin` that have not ended. */
  open: number;
}

const TICK_MS = 1_000;
const LOG_MS = 30_000;
/** An outage has ended after so many milliseconds without a sign of it. */
const QUIET_MS = 5_000;

export class Outages {
  /** Outages by cause. The map is bounded, because a cause has no data of a request. */
  readonly #outages = new Map<string, Outage>();

  constructor(
    private readonly log: Logger,
    private readonly masters: () => readonly MasterState[],
    private readonly now = () => performance.now(),
  ) {}

  refused(code: ErrorCode, overload?: Overload, sentence: string = ERRORS[code].sentence): void {
    if (ERRORS[code].status !== 503) return;
    const isOfRedis = sentence === ERRORS.unavailable.sentence;
    const why = () => overload ?? (isOfRedis ? this.#whyUnavailable() : sentence);
    this.#saw(`503 ${overload} ${sentence}`, () => ({ code, why: why() })).answers++;
  }

  /** @returns a function to call once when this sign of the outage is over */
  begin(why: string): () => void {
    const outage = this.#saw(why, () => ({ why }));
    outage.open++;
    return () => {
      outage.open--;
      outage.seen = this.now();
    };
  }

  watch(): () => void {
    const timer = setInterval(() => this.#tick(), TICK_MS);
    timer.unref();
    return () => clearInterval(timer);
  }

  #saw(cause: string, describe: () => object): Outage {
    const now = this.now();
    let outage = this.#outages.get(cause);
    if (outage === undefined) {
      outage = { describe, fields: {}, began: now, seen: now, logged: undefined, answers: 0, open: 0 };
      this.#outages.set(cause, outage);
    }
    outage.seen = now;
    return outage;
  }

  #tick(): void {
    for (const { address = 'Redis', state, reason } of this.masters())
      if (state !== 'up') this.#saw(`${address} ${reason}`, () => ({ master: address, why: reason }));
    for (const [cause, outage] of this.#outages) this.#report(cause, outage);
  }

  #report(cause: string, outage: Outage): void {
    const now = this.now();
    if (outage.open > 0) outage.seen = now;
    const hasEnded = now - outage.seen >= QUIET_MS;
    const { began, seen, logged, answers } = outage;
    if (logged === undefined) outage.fields = outage.describe();
    const seconds = Math.round(((hasEnded ? Math.max(seen, logged ?? 0) : now) - began) / 1_000);
    const line = { ...outage.fields, ...(answers > 0 ? { answers } : {}), seconds };
    if (logged === undefined) this.log.warn(line, 'an outage has begun');
    else if (!hasEnded && now - logged >= LOG_MS) this.log.warn(line, 'an outage goes on');
    else if (!hasEnded) return;
    outage.logged = now;
    if (!hasEnded) return;
    this.#outages.delete(cause);
    this.log.info(line, 'an outage has ended');
  }

  #whyUnavailable(): string {
    const reasons = this.masters().flatMap(({ address, reason }) =>
      reason ? [`${address ?? ''} ${reason}`.trim()] : [],
    );
    return reasons.length > 0 ? reasons.join('; ') : 'Redis did not answer in time';
  }
}
