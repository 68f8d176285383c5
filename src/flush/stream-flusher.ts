// Brings one stream from Redis to ClickHouse, each event or visit once: a state machine.
//
//            ┌───────────┐  not ours to take, or claim refused
//   start ──▶│  STANDBY  │◀─┐◀────────────────────────────────┐
//            └─────┬─────┘──┘                                 │ fenced off, or Redis failed: what is held is dropped;
//                  │ claim granted: an epoch, maybe a manifest│ given up for another flusher: after the batch in flight
//        manifest  ▼  none                                    │
//       ┌──────────┴────────┐                                 │
//       ▼                   ▼          nothing waits          │
//  ┌────────┐           ┌───────┐ ───────────────▶ ┌────────┐ │
//  │ REPLAY │           │  CUT  │ ◀─────────────── │ LINGER │ │
//  └────┬───┘           └───┬───┘     interval     └────────┘ │
//       │                   ▼                           ▲     │
//       │              ┌─────────┐                      │ the batch was not full
//       │              │ PREPARE │  the manifest is in Redis  │
//       │              └────┬────┘                      │     │
//       │                   ▼                           │     │
//       │              ┌─────────┐  tried for ever;     │     │
//       └─────────────▶│ INSERT  │  bad lines set aside │     │
//                      └────┬────┘                      │     │
//                           ▼                           │     │
//                      ┌──────────┐ full: CUT           │     │
//                      │ FINALIZE │─────────────────────┘─────┘
//                      └──────────┘
//
// There is one way to recover, whatever happened: claim again, and replay what the manifest says. A crash,
// a lost reply and a lost connection all end in STANDBY. The token makes the second insert of a batch nothing, and
// whether the first one's rows are there is looked up (see delivery.ts).

import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../backoff.js';
import { INSERT_BYTES } from '../clickhouse/insert.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { Delivery } from './delivery.js';
import { readErasures, withoutErased } from './erasures.js';
import { type Claim, FencedError, FencedStream } from './fenced-stream.js';
import { type Manifest, manifestOf } from './manifest.js';
import type { FlushMetrics } from './metrics.js';
import { type Batch, cutBatch, readBatch, type Source } from './reader.js';
import type { Kind, Streams } from './streams.js';

/** Bytes of a batch where there are many streams. Each has two in memory. */
const LEAST_BATCH_BYTES = 4_000_000;

/** Where a stream's flusher has just got to. */
export type Step = 'claimed' | 'prepared' | 'inserted' | 'finalized';

export interface StreamFlusherSpec {
  /** A connection whose timeout lets a page of a batch through; see cutBatch. */
  readonly redis: RedisClient;
  readonly keys: Keys;
  /** Streams of each kind that there are. */
  readonly streamCount: () => number;
  /** A name that is the same when this flusher is started again, and no other flusher's. */
  readonly owner: string;
  /** Longest wait of an event before it is inserted, in quiet times, milliseconds. */
  readonly intervalMs: number;
  readonly log: Logger;
  /** Milliseconds without a heartbeat after which an owner counts as gone. */
  readonly silentMs: number;
  /** Of what fails: claims, inserts, looks at the other flushers. By default the usual one. */
  readonly backoff?: Backoff | undefined;
  /** Told of every step, and waited for: tests stop the flusher at exact points. */
  readonly onStep?: ((step: Step, stream: number, kind: Kind) => void | Promise<void>) | undefined;
}

/** The time between a claim and the loss or release of the stream. */
interface Lease {
  readonly epoch: string;
  /** Aborts when the stream is given up: after the batch in flight another flusher may have it. */
  readonly leaving: AbortSignal;
  /** Aborts when there is to be no more waiting: only what is there already is still flushed. */
  readonly ending: AbortSignal;
  /** Aborts when the batch in flight is to be dropped, too. */
  readonly over: AbortSignal;
}

export class StreamFlusher {
  /** Resolves when this process does not own the stream. */
  over: Promise<void> = Promise.resolve();
  readonly #spec: StreamFlusherSpec;
  readonly #number: number;
  readonly #stream: FencedStream;
  readonly #streams: Streams;
  readonly #source: Source;
  readonly #metrics: FlushMetrics;
  readonly #log: Logger;
  readonly #stop: AbortSignal;
  readonly #halt: AbortSignal;
  readonly #onOver: () => void;
  /** While it is owned: aborted when it is given up. */
  #leaving: AbortController | undefined;
  #heldEpoch: string | undefined;
  /** Leases, or tries to get one, that have failed since a batch was last brought home. */
  #failures = 0;
  /** When it may be tried again, of our monotonic clock. */
  #notBefore = 0;

  /** @param onOver told when it is not owned any more */
  constructor(
    spec: StreamFlusherSpec,
    streams: Streams,
    stream: number,
    stop: AbortSignal,
    halt: AbortSignal,
    onOver: () => void,
  ) {
    this.#spec = spec;
    this.#streams = streams;
    this.#number = stream;
    this.#stream = new FencedStream(spec.redis, streams.keys, stream);
    this.#source = streams.source(stream);
    this.#metrics = streams.metrics;
    this.#log = spec.log.child(streams.kind === 'events' ? { stream } : { visits: stream });
    this.#stop = stop;
    this.#halt = halt;
    this.#onOver = onOver;
  }

  get isOwner(): boolean {
    return this.#leaving !== undefined;
  }

  /** Whether it is owned, and given up. */
  get isLeaving(): boolean {
    return this.#leaving?.signal.aborted ?? false;
  }

  get mayClaim(): boolean {
    return !this.isOwner && performance.now() >= this.#notBefore;
  }

  /** Leaves it to another flusher, when the batch in flight is done. */
  giveUp(): void {
    this.#leaving?.abort();
  }

  /** Becomes its owner, where it is free. */
  async claim(): Promise<boolean> {
    try {
      const claim = await this.#stream.claim(this.#spec.owner, this.#heldEpoch, this.#spec.silentMs);
      if (claim === undefined) return false;
      const leaving = new AbortController();
      this.#leaving = leaving;
      this.over = this.#own(claim, leaving.signal)
        .catch((error) => this.#failed(error))
        .finally(() => {
          this.#leaving = undefined;
          this.#onOver();
        });
      return true;
    } catch (error) {
      this.#failed(error as Error);
      return false;
    }
  }

  #failed(error: Error): void {
    if (this.#halt.aborted) return;
    if (error instanceof FencedError) {
      this.#log.warn('another flusher has taken the stream over; standing by');
    } else {
      this.#failures++;
      this.#log.warn({ err: error, failures: this.#failures }, 'flushing failed and will begin again');
      this.#notBefore = performance.now() + backoffMs(this.#failures, this.#spec.backoff);
    }
  }

  async #own({ epoch, manifest }: Claim, leaving: AbortSignal): Promise<void> {
    this.#heldEpoch = epoch;
    this.#log.info({ epoch, replay: manifest !== undefined }, 'owner of the stream');
    this.#metrics.claimed(this.#number, epoch);
    const lost = new AbortController();
    const lease = {
      epoch,
      leaving,
      // Made once and not for each batch: a signal remembers all that were ever derived from it.
      ending: AbortSignal.any([lost.signal, leaving, this.#stop]),
      over: AbortSignal.any([lost.signal, this.#halt]),
    };
    const beating = this.#beat(epoch, lost);
    try {
      await this.#reached('claimed');
      if (manifest !== undefined) await this.#replay(lease, manifest);
      await this.#flush(lease);
      lost.signal.throwIfAborted();
    } catch (error) {
      // What an abort cut short tells less than its reason.
      throw lost.signal.aborted ? lost.signal.reason : error;
    } finally {
      clearInterval(beating);
      lost.abort();
      this.#metrics.lost(this.#number);
      if (this.#stop.aborted || leaving.aborted) await this.#release(epoch);
    }
  }

  /** Cuts, inserts and finalizes batches until the lease ends, and then once more what waits by then. */
  async #flush(lease: Lease): Promise<void> {
    const { redis, streamCount } = this.#spec;
    const { rows } = this.#streams;
    const bytes = Math.max(Math.floor(INSERT_BYTES / streamCount()), LEAST_BATCH_BYTES);
    const bounds = { rows, bytes };
    // One batch is inserted while the next one is read. They are this lease's: an earlier one may still be reading.
    const memory = [Buffer.allocUnsafeSlow(bytes), Buffer.allocUnsafeSlow(bytes)] as const;
    let batches = 0;
    const cut = (after?: string) => cutBatch(redis, this.#source, after, bounds, memory[batches++ % 2]);
    let ahead: Promise<Batch | undefined> | undefined;
    while (!lease.over.aborted) {
      // (Not at the end: that flushes what waits, before another flusher has it.)
      if (lease.leaving.aborted && !this.#stop.aborted) return;
      const ending = lease.ending.aborted;
      const began = performance.now();
      const batch = await (ahead ?? cut());
      ahead = undefined;
      if (batch !== undefined) {
        const manifest = manifestOf(batch);
        await this.#stream.prepare(lease.epoch, manifest);
        await this.#reached('prepared');
        if (batch.full) {
          ahead = cut(batch.last);
          ahead.catch(() => {}); // thrown where it is awaited
        }
        await this.#deliver(lease, manifest, batch);
      }
      if (ending && !batch?.full) return;
      const rest = this.#spec.intervalMs - (performance.now() - began);
      if (ahead === undefined && rest > 0) await pause(rest, lease.ending);
    }
  }

  async #replay(lease: Lease, manifest: Manifest): Promise<void> {
    const batch = await readBatch(this.#spec.redis, this.#source, manifest);
    if (batch?.rows !== manifest.rows || batch.bytes !== manifest.bytes) {
      // Entries were removed by hand. What is left is sent under the batch's token: if the whole batch
      // is there already, that is nothing, and if it is not, then what is left is all there is. It is looked for.
      this.#log.error({ manifest, rows: batch?.rows ?? 0 }, 'entries of a batch have gone from the stream');
    }
    await this.#deliver(lease, manifest, batch, true);
  }

  async #deliver(
    { epoch, over }: Lease,
    manifest: Manifest,
    batch: Batch | undefined,
    isReplay = false,
  ): Promise<void> {
    const { foreignEntries = [] } = batch ?? {};
    const erasures = await readErasures(this.#spec.redis, this.#spec.keys);
    const lines = batch && withoutErased(batch.lines, erasures);
    const delivery = new Delivery(
      this.#streams.table,
      this.#log,
      (blame) => this.#metrics.insertFailed(blame),
      over,
      this.#spec.backoff,
    );
    const refused = lines?.length ? await delivery.deliver(lines, manifest.token, isReplay) : [];
    if (foreignEntries.length > 0)
      this.#log.error(
        { entries: foreignEntries.length },
        'entries that are not ours were in the stream; see dead list',
      );
    await this.#reached('inserted');
    await this.#stream.finalize(epoch, manifest, refused, foreignEntries);
    this.#failures = 0;
    this.#metrics.finished(manifest.rows, refused.length);
    await this.#reached('finalized');
  }

  /** Heartbeats, four in the time that an owner may be silent. Aborts `lost` when another flusher owns the stream. */
  #beat(epoch: string, lost: AbortController): NodeJS.Timeout {
    const beat = async () => {
      try {
        await this.#stream.beat(epoch);
      } catch (error) {
        if (error instanceof FencedError) lost.abort(error);
      }
    };
    void beat();
    return setInterval(beat, this.#spec.silentMs / 4);
  }

  async #release(epoch: string): Promise<void> {
    try {
      await this.#stream.release(epoch);
    } catch (error) {
      // Not ours any more, or Redis is away: then another flusher waits until we count as gone.
      this.#log.debug({ err: error }, 'the stream was not released');
    }
  }

  async #reached(step: Step): Promise<void> {
    await this.#spec.onStep?.(step, this.#number, this.#streams.kind);
  }
}
