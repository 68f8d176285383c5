// Brings events and visits from Redis to ClickHouse, each once. One state machine per stream, of either kind:
//
//            ┌───────────┐  claim refused: look again later
//   start ──▶│  STANDBY  │◀─┐◀────────────────────────────────┐
//            └─────┬─────┘──┘                                 │ fenced off, or Redis failed:
//                  │ claim granted: an epoch, maybe a manifest│ what is held is dropped
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
// `close` brings what waits by then to ClickHouse, within a deadline, and gives the shards up: another flusher
// that stands by has them at once.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { backoffMs, pause } from '../backoff.js';
import {
  INSERT_BYTES,
  INSERT_ROWS,
  INSERT_VISITS,
  insertEvents,
  insertVisits,
} from '../clickhouse/insert.js';
import { areStored, areVisitsStored } from '../clickhouse/stored.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys, StreamKeys } from '../redis/keys.js';
import { Delivery, type Table } from './delivery.js';
import { readErasures, withoutErased } from './erasures.js';
import { type Manifest, manifestOf } from './manifest.js';
import { FlushMetrics } from './metrics.js';
import { type Batch, cutBatch, readBatch, type Source } from './reader.js';
import { type Claim, FencedError, Shard } from './shard.js';

/** An owner that has not been heard of for so long counts as gone. */
const SILENT_MS = 5_000;
/** How often a shard that another flusher owns is looked at. */
const LOOK_MS = 250;
/** Bytes of a batch where there are many shards. Each has two in memory. */
const LEAST_BATCH_BYTES = 4_000_000;
/** How long `close` lets the batches in flight take. */
const CLOSE_MS = 10_000;

/** What streams hold. */
type Kind = 'events' | 'visits';

/** Where a shard's flusher has just got to. */
export type Step = 'claimed' | 'prepared' | 'inserted' | 'finalized';

export interface FlusherSpec {
  /** A connection whose timeout lets a page of a batch through; see cutBatch. */
  readonly redis: RedisClient;
  readonly keys: Keys;
  /** With the database that holds the events; see createClickHouse. */
  readonly clickhouse: ClickHouseClient;
  /** Number of shards; all of them are taken care of. */
  readonly shards: number;
  /** Numbers of the streams of visits that are taken care of; by default none. */
  readonly visitStreams?: readonly number[];
  /** A name that is the same when this flusher is started again, and no other flusher's. */
  readonly owner: string;
  /** Longest wait of an event before it is inserted, in quiet times, milliseconds. */
  readonly intervalMs: number;
  readonly log: Logger;
  readonly metrics?: Registry;
  /** Milliseconds without a heartbeat after which an owner counts as gone. */
  readonly silentMs?: number;
  /** Told of every step, and waited for: tests stop the flusher at exact points. */
  readonly onStep?: (step: Step, shard: number, kind: Kind) => void | Promise<void>;
}

export interface Flusher {
  /**
   * Inserts what waits now, at most `deadlineMs` long, and gives the shards up. What is not in
   * ClickHouse by then stays in Redis.
   */
  close(deadlineMs?: number): Promise<void>;
}

/** Never throws: what fails is logged and tried again until `close`. */
export function startFlusher(spec: FlusherSpec): Flusher {
  const stop = new AbortController();
  const halt = new AbortController();
  const { shards, visitStreams = [] } = spec;
  const registry = spec.metrics ?? new Registry();
  const running = [
    eventStreams(
      spec,
      Array.from({ length: shards }, (_, shard) => shard),
      registry,
    ),
    ...(visitStreams.length > 0 ? [visitStreamsOf(spec, visitStreams, registry)] : []),
  ].flatMap((streams) =>
    streams.numbers.map((number) => new ShardFlusher(spec, streams, number, stop.signal, halt.signal).run()),
  );
  const ended = Promise.all(running);
  return {
    async close(deadlineMs = CLOSE_MS) {
      stop.abort();
      const deadline = setTimeout(() => halt.abort(), deadlineMs);
      await ended;
      clearTimeout(deadline);
    },
  };
}

/** Streams of one kind. */
interface Streams {
  readonly kind: Kind;
  readonly numbers: readonly number[];
  readonly keys: StreamKeys;
  readonly table: Table;
  /** Rows of one insert. */
  readonly rows: number;
  readonly metrics: FlushMetrics;
  source(number: number): Source;
}

function eventStreams(
  { keys, clickhouse }: FlusherSpec,
  numbers: readonly number[],
  registry: Registry,
): Streams {
  return {
    kind: 'events',
    numbers,
    keys,
    table: {
      insert: (lines, token, signal) => insertEvents(clickhouse, lines, token, signal),
      holds: (lines, signal) => areStored(clickhouse, lines, signal),
    },
    rows: INSERT_ROWS,
    metrics: new FlushMetrics(registry),
    source: (shard) => ({ stream: keys.events(shard) }),
  };
}

function visitStreamsOf(
  { keys: { visits: keys }, clickhouse }: FlusherSpec,
  numbers: readonly number[],
  registry: Registry,
): Streams {
  return {
    kind: 'visits',
    numbers,
    keys,
    table: {
      insert: (lines, token, signal) => insertVisits(clickhouse, lines, token, signal),
      holds: (lines, signal) => areVisitsStored(clickhouse, lines, signal),
    },
    rows: INSERT_VISITS,
    metrics: new FlushMetrics(registry, { prefix: 'wishmeter_visit_flush', rows: 'visits' }),
    source: (visits) => ({ stream: keys.events(visits), visits }),
  };
}

/** The time between a claim and the loss or release of the shard. */
interface Tenure {
  readonly epoch: string;
  /** Aborts when there is to be no more waiting: only what is there already is still flushed. */
  readonly ending: AbortSignal;
  /** Aborts when the batch in flight is to be dropped, too. */
  readonly over: AbortSignal;
}

class ShardFlusher {
  readonly #spec: FlusherSpec;
  readonly #number: number;
  readonly #shard: Shard;
  readonly #streams: Streams;
  readonly #source: Source;
  readonly #metrics: FlushMetrics;
  readonly #log: Logger;
  readonly #silentMs: number;
  readonly #stop: AbortSignal;
  readonly #halt: AbortSignal;
  #heldEpoch: string | undefined;
  /** Tenures, or tries to get one, that have failed since a batch was last brought home. */
  #failures = 0;

  constructor(spec: FlusherSpec, streams: Streams, shard: number, stop: AbortSignal, halt: AbortSignal) {
    this.#spec = spec;
    this.#streams = streams;
    this.#number = shard;
    this.#shard = new Shard(spec.redis, streams.keys, shard);
    this.#source = streams.source(shard);
    this.#metrics = streams.metrics;
    this.#log = spec.log.child(streams.kind === 'events' ? { shard } : { visits: shard });
    this.#silentMs = spec.silentMs ?? SILENT_MS;
    this.#stop = stop;
    this.#halt = halt;
  }

  /** Resolves once stopped. */
  async run(): Promise<void> {
    while (!this.#stop.aborted) {
      try {
        const claim = await this.#shard.claim(this.#spec.owner, this.#heldEpoch, this.#silentMs);
        if (claim !== undefined) await this.#own(claim);
        else await pause(LOOK_MS, this.#stop);
      } catch (error) {
        if (this.#halt.aborted) break;
        if (error instanceof FencedError) {
          this.#log.warn('another flusher has taken the shard over; standing by');
        } else {
          this.#failures++;
          this.#log.warn({ err: error, failures: this.#failures }, 'flushing failed and will begin again');
          await pause(backoffMs(this.#failures), this.#stop);
        }
      }
    }
  }

  async #own({ epoch, manifest }: Claim): Promise<void> {
    this.#heldEpoch = epoch;
    this.#log.info({ epoch, replay: manifest !== undefined }, 'owner of the shard');
    this.#metrics.claimed(this.#number, epoch);
    const lost = new AbortController();
    const tenure = {
      epoch,
      // Made once and not for each batch: a signal remembers all that were ever derived from it.
      ending: AbortSignal.any([lost.signal, this.#stop]),
      over: AbortSignal.any([lost.signal, this.#halt]),
    };
    const beating = this.#beat(epoch, lost);
    try {
      await this.#reached('claimed');
      if (manifest !== undefined) await this.#replay(tenure, manifest);
      await this.#flush(tenure);
      lost.signal.throwIfAborted();
    } catch (error) {
      // What an abort cut short tells less than its reason.
      throw lost.signal.aborted ? lost.signal.reason : error;
    } finally {
      clearInterval(beating);
      lost.abort();
      this.#metrics.lost(this.#number);
      if (this.#stop.aborted) await this.#release(epoch);
    }
  }

  /** Cuts, inserts and finalizes batches until the tenure ends, and then once more what waits by then. */
  async #flush(tenure: Tenure): Promise<void> {
    const { redis } = this.#spec;
    const { numbers, rows } = this.#streams;
    const bytes = Math.max(Math.floor(INSERT_BYTES / numbers.length), LEAST_BATCH_BYTES);
    const bounds = { rows, bytes };
    // One batch is inserted while the next one is read. They are this tenure's: an earlier one may still be reading.
    const memory = [Buffer.allocUnsafeSlow(bytes), Buffer.allocUnsafeSlow(bytes)] as const;
    let batches = 0;
    const cut = (after?: string) => cutBatch(redis, this.#source, after, bounds, memory[batches++ % 2]);
    let ahead: Promise<Batch | undefined> | undefined;
    while (!tenure.over.aborted) {
      const ending = tenure.ending.aborted;
      const began = performance.now();
      const batch = await (ahead ?? cut());
      ahead = undefined;
      if (batch !== undefined) {
        const manifest = manifestOf(batch);
        await this.#shard.prepare(tenure.epoch, manifest);
        await this.#reached('prepared');
        if (batch.full) {
          ahead = cut(batch.last);
          ahead.catch(() => {}); // thrown where it is awaited
        }
        await this.#deliver(tenure, manifest, batch);
      }
      if (ending && !batch?.full) return;
      const rest = this.#spec.intervalMs - (performance.now() - began);
      if (ahead === undefined && rest > 0) await pause(rest, tenure.ending);
    }
  }

  async #replay(tenure: Tenure, manifest: Manifest): Promise<void> {
    const batch = await readBatch(this.#spec.redis, this.#source, manifest);
    if (batch?.rows !== manifest.rows || batch.bytes !== manifest.bytes) {
      // Entries were removed by hand. What is left is sent under the batch's token: if the whole batch
      // is there already, that is nothing, and if it is not, then what is left is all there is. It is looked for.
      this.#log.error({ manifest, rows: batch?.rows ?? 0 }, 'entries of a batch have gone from the stream');
    }
    await this.#deliver(tenure, manifest, batch, true);
  }

  async #deliver(
    { epoch, over }: Tenure,
    manifest: Manifest,
    batch: Batch | undefined,
    isReplay = false,
  ): Promise<void> {
    const { strangers = [] } = batch ?? {};
    const erasures = await readErasures(this.#spec.redis, this.#spec.keys);
    const lines = batch && withoutErased(batch.lines, erasures);
    const delivery = new Delivery(
      this.#streams.table,
      this.#log,
      (blame) => this.#metrics.insertFailed(blame),
      over,
    );
    const refused = lines?.length ? await delivery.deliver(lines, manifest.token, isReplay) : [];
    if (strangers.length > 0)
      this.#log.error(
        { entries: strangers.length },
        'entries that are not ours were in the stream; see dead list',
      );
    await this.#reached('inserted');
    await this.#shard.finalize(epoch, manifest, refused, strangers);
    this.#failures = 0;
    this.#metrics.finished(manifest.rows, refused.length);
    await this.#reached('finalized');
  }

  /** Heartbeats, four in the time that an owner may be silent. Aborts `lost` when another flusher owns the shard. */
  #beat(epoch: string, lost: AbortController): NodeJS.Timeout {
    const beat = async () => {
      try {
        await this.#shard.beat(epoch);
      } catch (error) {
        if (error instanceof FencedError) lost.abort(error);
      }
    };
    void beat();
    return setInterval(beat, this.#silentMs / 4);
  }

  async #release(epoch: string): Promise<void> {
    try {
      await this.#shard.release(epoch);
    } catch (error) {
      // Not ours any more, or Redis is away: then another flusher waits until we count as gone.
      this.#log.debug({ err: error }, 'the shard was not released');
    }
  }

  async #reached(step: Step): Promise<void> {
    await this.#spec.onStep?.(step, this.#number, this.#streams.kind);
  }
}
