// Moves one stream from Redis to ClickHouse, in a loop:
//
//   read ──▶ insert ──▶ hand over to receivers ──▶ acknowledge     a full batch is inserted while the next one is read
//
// Rows are inserted at least once; their names make them unique. After a crash the batch's entries stay pending.

import type { Logger } from 'pino';
import { type Backoff, backoffMs, pause } from '../backoff.js';
import { INSERT_BYTES } from '../clickhouse/insert.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { readErasures, withoutErased } from './erasures.js';
import { type Refused, StreamGroup } from './group.js';
import { insertLines } from './insert-lines.js';
import { type Batch, type Bounds, PAGE_BYTES } from './reader.js';
import type { Kind, Streams } from './streams.js';

/** Any flusher claims entries that have been pending and idle for so long. With SCAN_MS, they wait at most 15 s. */
const ABANDONED_MS = 10_000;
const SCAN_MS = 2_500;
const KEEP_MS = 2_500;
/** Smallest bound of a batch, however many streams share INSERT_BYTES. A stream holds two batches in memory. */
const LEAST_BATCH_BYTES = 4_000_000;

export type Step = 'read' | 'inserted' | 'handedOver' | 'acknowledged';

export interface StreamFlusherSpec {
  /** Its timeout must allow a page of a batch. */
  readonly redis: RedisClient;
  readonly keys: Keys;
  /** Milliseconds an event waits at most under low load. */
  readonly intervalMs: number;
  readonly log: Logger;
  readonly abandonedMs?: number | undefined;
  readonly backoff?: Backoff | undefined;
  /** Called after the insert, and again after a crash. */
  readonly handOver?:
    | ((stream: number, lines: Buffer, refused: readonly Refused[]) => Promise<void>)
    | undefined;
  readonly onStep?: ((step: Step, stream: number, kind: Kind) => void | Promise<void>) | undefined;
}

export interface Signals {
  /** The process ends: flush the stream once more. */
  readonly drain: AbortSignal;
  readonly abort: AbortSignal;
}

class TakenOverError extends Error {}

export interface FlushedStream {
  readonly streams: Streams;
  readonly number: number;
  readonly streamCount: number;
}

/** Resolves after `drain` when the stream is empty, or after `abort`. */
export async function flushStream(
  spec: StreamFlusherSpec,
  stream: FlushedStream,
  signals: Signals,
): Promise<void> {
  await new StreamFlusher(spec, stream, signals).run();
}

class StreamFlusher {
  readonly #spec: StreamFlusherSpec;
  readonly #streams: Streams;
  readonly #number: number;
  readonly #group: StreamGroup;
  readonly #log: Logger;
  readonly #signals: Signals;
  readonly #bounds: Bounds;
  readonly #memory: readonly [Buffer, Buffer];
  readonly #abandonedMs: number;
  readonly #scanMs: number;
  #reads = 0;
  #scannedAt = Number.NEGATIVE_INFINITY;
  readonly #held = new Map<Batch, number>();

  constructor(spec: StreamFlusherSpec, { streams, number, streamCount }: FlushedStream, signals: Signals) {
    this.#spec = spec;
    this.#streams = streams;
    this.#number = number;
    this.#signals = signals;
    this.#group = new StreamGroup(spec.redis, streams.keys, number, streams.source(number));
    this.#log = spec.log.child(streams.kind === 'events' ? { stream: number } : { visits: number });
    const bytes = Math.max(Math.floor(INSERT_BYTES / streamCount), LEAST_BATCH_BYTES);
    this.#bounds = { rows: streams.rows, bytes };
    const memory = () => Buffer.allocUnsafeSlow(bytes + PAGE_BYTES);
    this.#memory = [memory(), memory()];
    this.#abandonedMs = spec.abandonedMs ?? ABANDONED_MS;
    this.#scanMs = Math.min(SCAN_MS, this.#abandonedMs / 4);
  }

  async run(): Promise<void> {
    const { drain, abort } = this.#signals;
    const ended = new AbortController();
    void this.#keepHeld(ended.signal);
    try {
      for (let next = this.#read(); ; ) {
        const began = performance.now();
        const isDraining = drain.aborted;
        const batch = await next;
        if (batch?.isFull) next = this.#read();
        if (batch !== undefined) await this.#bring(batch);
        if (abort.aborted || (isDraining && !batch?.isFull)) return;
        if (batch?.isFull) continue;
        await pause(this.#spec.intervalMs - (performance.now() - began), drain);
        next = this.#read();
      }
    } finally {
      ended.abort();
    }
  }

  /** Reads abandoned entries every SCAN_MS, else new ones. Never throws. */
  async #read(): Promise<Batch | undefined> {
    const memory = this.#memory[this.#reads++ % 2];
    const batch = await this.#retried(async () => {
      if (performance.now() - this.#scannedAt >= this.#scanMs) {
        const abandoned = await this.#group.readAbandoned(this.#abandonedMs, this.#bounds, memory);
        this.#scannedAt = performance.now();
        if (abandoned !== undefined) {
          this.#log.warn({ rows: abandoned.rows }, 'entries that a flusher has left pending are read again');
          return { ...abandoned, isFull: true };
        }
      }
      return this.#group.readNew(this.#bounds, memory);
    }, this.#signals.drain);
    if (batch !== undefined) this.#held.set(batch, performance.now());
    return batch;
  }

  /** Never throws: a batch that fails for good stays pending. */
  async #bring(batch: Batch): Promise<void> {
    const { abort } = this.#signals;
    try {
      await this.#reached('read');
      const erasures = await this.#untilDone(() => readErasures(this.#spec.redis, this.#spec.keys));
      const lines = withoutErased(batch.lines, erasures);
      const refused = await insertLines(lines, {
        insert: this.#streams.insert,
        log: this.#log,
        onError: (blame) => this.#streams.metrics.insertFailed(blame),
        confirm: () => this.#confirm(batch),
        signal: abort,
        backoff: this.#spec.backoff,
      });
      await this.#reached('inserted');
      if (this.#streams.kind === 'events' && lines.length > 0) {
        await this.#untilDone(async () => this.#spec.handOver?.(this.#number, lines, refused));
        await this.#reached('handedOver');
      }
      const { entries, foreignEntries, rows } = batch;
      if (foreignEntries.length > 0)
        this.#log.error(
          { entries: foreignEntries.length },
          'entries that are not ours were in the stream; see dead list',
        );
      await this.#untilDone(() => this.#group.ack(entries, refused, foreignEntries));
      this.#streams.metrics.finished(rows, refused.length);
      await this.#reached('acknowledged');
    } catch (error) {
      if (error instanceof TakenOverError)
        this.#log.warn('another flusher has finished this batch: it is dropped');
      else if (!abort.aborted) this.#log.error({ err: error }, 'a batch failed, and is read again later');
    } finally {
      this.#held.delete(batch);
    }
  }

  /**
   * Call before an insert. If this process was frozen, another flusher may have finished the batch, and some of its
   * visitors may have been erased since.
   */
  async #confirm(batch: Batch): Promise<void> {
    const keptAt = this.#held.get(batch) ?? Number.NEGATIVE_INFINITY;
    if (performance.now() - keptAt < this.#abandonedMs / 2) return;
    if (!(await this.#untilDone(() => this.#group.keep(batch.entries)))) throw new TakenOverError();
    this.#held.set(batch, performance.now());
  }

  /** Makes one call at a time, because a slow Redis must not get more. Never throws. */
  async #keepHeld(ended: AbortSignal): Promise<void> {
    for (;;) {
      await pause(Math.min(KEEP_MS, this.#abandonedMs / 4), ended);
      if (ended.aborted) return;
      for (const batch of [...this.#held.keys()]) {
        try {
          const isOurs = await this.#group.keep(batch.entries);
          if (isOurs && this.#held.has(batch)) this.#held.set(batch, performance.now());
        } catch {
          // `#confirm` checks again.
        }
      }
    }
  }

  #untilDone<T>(act: () => Promise<T>): Promise<T> {
    return this.#repeat(act, this.#signals.abort);
  }

  async #retried<T>(act: () => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    try {
      return await this.#repeat(act, signal);
    } catch {
      return undefined;
    }
  }

  async #repeat<T>(act: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let failures = 1; ; failures++) {
      try {
        return await act();
      } catch (error) {
        if (signal.aborted) throw error;
        this.#log.warn({ err: error, failures }, 'Redis failed and will be asked again');
        await pause(backoffMs(failures, this.#spec.backoff), signal);
      }
    }
  }

  async #reached(step: Step): Promise<void> {
    await this.#spec.onStep?.(step, this.#number, this.#streams.kind);
  }
}
