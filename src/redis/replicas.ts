// Whether enough replicas of a master keep up, by `INFO replication`: with REDIS_REPLICAS a write that they can't
// acknowledge is refused before it is done.
//
// A replica counts if it is online, has acknowledged something in the last seconds, and, once a WAIT was in vain, all
// that the master had after it. A replica that falls behind between two checks goes unnoticed.

/** Milliseconds that an answer holds; Redis is asked once a second. */
const KNOWN_MS = 3_000;
/** Replicas acknowledge once a second, and Redis counts whole seconds. */
const MAX_LAG_S = 2;
/** Milliseconds that a replica still counts as connected after it has disconnected. */
const CONNECTED_MS = 15_000;

export class Replicas {
  #counted: { readonly count: number; readonly at: number } | undefined;
  #connectedAt = Number.NEGATIVE_INFINITY;
  #wasLate = false;
  #requiredOffset = 0;

  /** @param needed REDIS_REPLICAS */
  constructor(
    private readonly needed: number,
    private readonly now = () => performance.now(),
  ) {}

  read(info: string): void {
    const at = this.now();
    if (/^connected_slaves:[1-9]/m.test(info)) this.#connectedAt = at;
    if (this.#wasLate) this.#requiredOffset = Number(/^master_repl_offset:(\d+)/m.exec(info)?.[1] ?? 0);
    this.#wasLate = false;
    const online = info.matchAll(/^slave\d+:[^\n]*\bstate=online,offset=(\d+),lag=(\d+)/gm);
    const count = [...online].filter(([, offset, lag]) => this.#keepsUp(Number(offset), Number(lag))).length;
    this.#counted = { count, at };
  }

  /** A WAIT was in vain. */
  late(): void {
    this.#wasLate = true;
    this.#counted = undefined;
  }

  /** Offsets of another connection may be those of another master. */
  forget(): void {
    this.#counted = undefined;
    this.#wasLate = false;
    this.#requiredOffset = 0;
  }

  get isConnected(): boolean {
    return this.now() - this.#connectedAt < CONNECTED_MS;
  }

  /** As Redis would say it. */
  get tooFew(): Error | undefined {
    if (this.needed === 0) return undefined;
    const { count, at } = this.#counted ?? { count: 0, at: Number.NEGATIVE_INFINITY };
    if (this.now() - at > KNOWN_MS) return new Error('NOREPLICAS Whether replicas keep up is unknown.');
    if (count >= this.needed) return undefined;
    return new Error(`NOREPLICAS ${count} of ${this.needed} replicas keep up.`);
  }

  #keepsUp(offset: number, lagS: number): boolean {
    return lagS <= MAX_LAG_S && offset >= this.#requiredOffset;
  }
}
