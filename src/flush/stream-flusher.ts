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
// There is one way to recover from anything: claim again, and replay what the manifest says. A crash,
// a lost reply and a lost connection all end in STANDBY. The token makes the second insert of a batch nothing, and
// whether the first one's rows are there is looked up (see delivery.ts).

import type { Logger } from 'pino';
import { type Backoff, pause } from '../backoff.js';
import { INSERT_BYTES } from '../clickhouse/insert.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { Delivery } from './delivery.js';
import { readErasures, withoutErased } from './erasures.js';
import { FencedStream, type Refused } from './fenced-stream.js';
import { type Manifest, manifestOf } from './manifest.js';
import type { FlushMetrics } from './metrics.js';
import { type Lease, OwnedStream } from './owned-stream.js';
import { type Batch, cutBatch, readBatch, type Source } from './reader.js';
import type { Signals } from './sharing.js';
import type { Kind, Streams } from './streams.js';

/** Bytes of a batch where there are many streams. Each has two in memory. */
const LEAST_BATCH_BYTES = 4_000_000;

/** Where a stream's flusher has just got to. */
export type Step = 'claimed' | 'prepared' | 'inserted' | 'handedOver' | 'finalized';

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
  /**
   * Takes the events of a batch that are in ClickHouse, before they leave the stream: after a crash they come again.
   * @param lines with those that were `refused`, which come again when their dead letters are retried
   */
  readonly handOver?:
    | ((stream: number, lines: Buffer, refused: readonly Refused[]) => Promise<void>)
    | undefined;
  /** Told of every step, and waited for: tests stop the flusher at exact points. */
  readonly onStep?: ((step: Step, stream: number, kind: Kind) => void | Promise<void>) | undefined;
}

/** A stream that is flushed while this process owns it. */
export function flushStream(
  spec: StreamFlusherSpec,
  streams: Streams,
  stream: number,
  { stop, halt }: Signals,
  onOver: () => void,
): OwnedStream {
  const log = spec.log.child(streams.kind === 'events' ? { stream } : { visits: stream });
  const fenced = new FencedStream(spec.redis, streams.keys, stream);
  const { owner, silentMs, backoff } = spec;
  const flusher = new StreamFlusher(spec, streams, stream, fenced, log, stop, () => owned.worked());
  const work = (lease: Lease) => flusher.work(lease);
  const owned: OwnedStream = new OwnedStream({
    ...{ ownership: fenced, owner, silentMs, backoff, log, stop, halt },
    ...{ onOver, work },
  });
  return owned;
}

class StreamFlusher {
  readonly #spec: StreamFlusherSpec;
  readonly #number: number;
  readonly #stream: FencedStream;
  readonly #streams: Streams;
  readonly #source: Source;
  readonly #metrics: FlushMetrics;
  readonly #log: Logger;
  readonly #stop: AbortSignal;
  readonly #onBatch: () => void;

  constructor(
    spec: StreamFlusherSpec,
    streams: Streams,
    stream: number,
    fenced: FencedStream,
    log: Logger,
    stop: AbortSignal,
    onBatch: () => void,
  ) {
    this.#spec = spec;
    this.#streams = streams;
    this.#number = stream;
    this.#stream = fenced;
    this.#source = streams.source(stream);
    this.#metrics = streams.metrics;
    this.#log = log;
    this.#stop = stop;
    this.#onBatch = onBatch;
  }

  async work(lease: Lease): Promise<void> {
    this.#metrics.claimed(this.#number, lease.epoch);
    try {
      await this.#reached('claimed');
      if (lease.manifest !== undefined) await this.#replay(lease, lease.manifest);
      await this.#flush(lease);
    } finally {
      this.#metrics.lost(this.#number);
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
    if (this.#streams.kind === 'events' && lines?.length) {
      await this.#spec.handOver?.(this.#number, lines, refused);
      await this.#reached('handedOver');
    }
    await this.#stream.finalize(epoch, manifest, refused, foreignEntries);
    this.#onBatch();
    this.#metrics.finished(manifest.rows, refused.length);
    await this.#reached('finalized');
  }

  async #reached(step: Step): Promise<void> {
    await this.#spec.onStep?.(step, this.#number, this.#streams.kind);
  }
}
