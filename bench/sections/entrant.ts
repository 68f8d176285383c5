// A case that takes part in a measurement, and its running server. Its answers are proved right before any timing, and at
// the end it is proved to hold exactly what it acknowledged.

import type { Bench } from '../bench.js';
import type { Case } from '../cases.js';
import { startMeter } from '../cpu.js';
import { type Answered, replay } from '../load/wrk.js';
import { untilDrained } from '../proofs/events.js';
import { startTarget } from '../servers/start.js';
import type { Target } from '../servers/target.js';
import type { Slice } from '../slice.js';
import { type Pool, WARM_UP } from '../traffic/pools.js';

/** Seconds of a slice. */
const SLICE_S = 1;
/**
 * Seconds of load before each slice. While the others had their turn, the processor's caches became theirs and V8 returned
 * memory: no shop's visits pay for that.
 */
const LEAD_S = 0.5;

export class Entrant {
  readonly name: string;
  readonly one: Case;
  readonly slices: Slice[] = [];
  readonly #bench: Bench;
  readonly #root: URL | undefined;
  /** Acknowledged requests: `n` of a pool are its first `n`, over and over. */
  readonly #sent = new Map<Pool, number>();
  #target: Target | undefined;
  #left = 0;

  /** @param root another tree that runs `wishmeter`: its Redis is not looked into, since it may spell keys otherwise */
  constructor(bench: Bench, one: Case, name = one.name, root?: URL) {
    this.name = name;
    this.one = one;
    this.#bench = bench;
    this.#root = root;
  }

  get target(): Target {
    if (this.#target === undefined) throw new Error('not started');
    return this.#target;
  }

  /** @throws if an answer is wrong */
  async start(): Promise<void> {
    const { one } = this;
    const { pool: poolOf, settings } = this.#bench;
    this.#target = await startTarget({ ...one, dir: this.#bench.folder(), root: this.#root });
    this.#left = await one.proof.before(this.target);
    await one.fill?.(this.target);
    for (const [share, name] of one.before) {
      const pool = poolOf(name);
      const requests = share === 'all' ? pool.size : Math.min(WARM_UP, pool.size);
      // Over the usual connections none is refused: the proof would not know which.
      const connections = one.maySeeRefusals ? {} : one;
      const { answers } = await replay({ ...connections, port: this.target.port, pool, requests });
      this.note(pool, answers);
    }
    await this.load(settings.firstLeadS);
  }

  /** Measures a slice of its load, after some load that does not count. */
  async slice(): Promise<Slice> {
    await this.load(LEAD_S);
    const meter = startMeter(this.target);
    const answered = await this.load(SLICE_S);
    const { perRequest } = this.#bench.pool(this.one.load);
    return { ...answered, ...meter(), operations: answered.answers * perRequest };
  }

  /** Sends its load for some seconds. */
  async load(seconds: number): Promise<Answered> {
    const { target, one } = this;
    const pool = this.#bench.pool(one.load);
    // Goes on in the pool where the last load ended: a new session is new only once.
    const first = this.#sent.get(pool) ?? 0;
    const { freshPerSlice: requests = 0 } = one;
    const answered = await replay({ ...one, port: target.port, pool, first, seconds, requests });
    // The flusher's work for these requests counts as theirs, and must not disturb the next slice.
    if (one.flushes) await untilDrained(target);
    this.note(pool, answered.answers);
    if (requests > 0 && first + answered.answers > pool.size)
      throw new Error(`${one.name}: more answers than new sessions`);
    return answered;
  }

  /** Notes acknowledged requests, for the proof. */
  note(pool: Pool, requests: number): void {
    this.#sent.set(pool, (this.#sent.get(pool) ?? 0) + requests);
  }

  /** @throws if the server and its Redis don't hold exactly what was acknowledged */
  async prove(): Promise<void> {
    if (this.#root === undefined) await this.one.proof.after(this.target, this.#sent, this.#left);
  }

  async stop(): Promise<void> {
    await this.#target?.stop();
  }
}
