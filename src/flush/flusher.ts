// Brings events and visits from Redis to ClickHouse, each once. One state machine per stream, of either kind:
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
// Several flushers share the streams evenly (team.ts). A stream that came by a raise of their number is held back until the
// older ones have brought home what came before it: else a visitor's later events could arrive before the earlier ones.
//
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
import type { EventShards } from '../redis/event-shards.js';
import type { Keys, StreamKeys } from '../redis/keys.js';
import { Delivery, type Table } from './delivery.js';
import { readErasures, withoutErased } from './erasures.js';
import { type Manifest, manifestOf } from './manifest.js';
import { FlushMetrics } from './metrics.js';
import { type Batch, cutBatch, readBatch, type Source } from './reader.js';
import { type Claim, FencedError, Shard } from './shard.js';
import { changeOfShare, Team } from './team.js';

/** An owner that has not been heard of for so long counts as gone: with a look, others have its streams within 5 s. */
const SILENT_MS = 4_000;
/** How often a flusher looks at what the others own. */
const LOOK_MS = 250;
/** After a raise, until all who append know that its moment has come, and their clocks agree. */
const RAISE_MS = 1_000;
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
  /** All of them are taken care of, also those that come. */
  readonly shards: Pick<EventShards, 'all' | 'raises' | 'now'>;
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
  const sharing = new Sharing(spec, stop.signal, halt.signal);
  const ended = sharing.run();
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
  /** Numbers of those that there are now. */
  numbers(): readonly number[];
  readonly keys: StreamKeys;
  readonly table: Table;
  /** Rows of one insert. */
  readonly rows: number;
  readonly metrics: FlushMetrics;
  source(number: number): Source;
}

function eventStreams({ keys, clickhouse, shards }: FlusherSpec, registry: Registry): Streams {
  return {
    kind: 'events',
    numbers: () => Array.from({ length: shards.all }, (_, shard) => shard),
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
    numbers: () => numbers,
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

/** What this process has of the streams of all kinds. */
class Sharing {
  readonly #spec: FlusherSpec;
  readonly #kinds: readonly Streams[];
  readonly #team: Team;
  readonly #lookMs: number;
  readonly #stop: AbortSignal;
  readonly #halt: AbortSignal;
  readonly #flushers = new Map<string, ShardFlusher>();
  #nap = new AbortController();

  constructor(spec: FlusherSpec, stop: AbortSignal, halt: AbortSignal) {
    const { visitStreams = [], metrics = new Registry(), silentMs = SILENT_MS } = spec;
    this.#spec = spec;
    this.#kinds = [
      eventStreams(spec, metrics),
      ...(visitStreams.length > 0 ? [visitStreamsOf(spec, visitStreams, metrics)] : []),
    ];
    this.#team = new Team(spec.redis, spec.keys, spec.owner, silentMs);
    this.#lookMs = Math.min(LOOK_MS, silentMs / 4);
    this.#stop = stop;
    this.#halt = halt;
    stop.addEventListener('abort', () => this.#nap.abort());
  }

  /** Resolves once stopped. */
  async run(): Promise<void> {
    for (let failures = 0; !this.#stop.aborted; ) {
      try {
        this.#add();
        await this.#share();
        failures = 0;
      } catch (error) {
        failures++;
        this.#spec.log.warn({ err: error, failures }, 'the other flushers could not be asked for');
      }
      // A stream that was lost is looked at again at once.
      this.#nap = new AbortController();
      if (!this.#stop.aborted)
        await pause(failures > 0 ? backoffMs(failures) : this.#lookMs, this.#nap.signal);
    }
    const leaving = this.#team.leave().catch(() => {}); // then we count as gone after a while
    await Promise.all([leaving, ...Array.from(this.#flushers.values(), ({ over }) => over)]);
  }

  /** Streams that have come. */
  #add(): void {
    for (const streams of this.#kinds) {
      for (const number of streams.numbers()) {
        const name = `${streams.kind} ${number}`;
        if (this.#flushers.has(name)) continue;
        const wake = () => this.#nap.abort();
        this.#flushers.set(name, new ShardFlusher(this.#spec, streams, number, this.#stop, this.#halt, wake));
      }
    }
  }

  async #share(): Promise<void> {
    const all = [...this.#flushers.values()];
    const owned = all.filter(({ isOwner }) => isOwner);
    const staying = owned.filter(({ isLeaving }) => !isLeaving);
    const others = await this.#team.announce(owned.length);
    const change = changeOfShare(staying.length, others, all.length);
    if (change < 0) for (const one of staying.slice(change)) one.giveUp();
    if (change <= 0 || staying.length < owned.length) return;
    // In an order of our own, so that two flushers seldom try the same.
    const free = shuffled(all.filter(({ mayClaim }) => mayClaim));
    for (let wanted = change; wanted > 0 && free.length > 0 && !this.#stop.aborted; ) {
      const claims = await Promise.all(free.splice(0, wanted).map((one) => one.claim()));
      wanted -= claims.filter(Boolean).length;
    }
  }
}

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((one) => ({ one, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one);
}

/** The time between a claim and the loss or release of the shard. */
interface Tenure {
  readonly epoch: string;
  /** Aborts when the shard is given up: after the batch in flight another flusher may have it. */
  readonly leaving: AbortSignal;
  /** Aborts when there is to be no more waiting: only what is there already is still flushed. */
  readonly ending: AbortSignal;
  /** Aborts when the batch in flight is to be dropped, too. */
  readonly over: AbortSignal;
}

class ShardFlusher {
  /** Resolves when this process does not own the shard. */
  over: Promise<void> = Promise.resolve();
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
  readonly #onOver: () => void;
  /** While it is owned: aborted when it is given up. */
  #leaving: AbortController | undefined;
  #heldEpoch: string | undefined;
  /** Tenures, or tries to get one, that have failed since a batch was last brought home. */
  #failures = 0;
  /** When it may be tried again, of our monotonic clock. */
  #notBefore = 0;

  /** @param onOver told when it is not owned any more */
  constructor(
    spec: FlusherSpec,
    streams: Streams,
    shard: number,
    stop: AbortSignal,
    halt: AbortSignal,
    onOver: () => void,
  ) {
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
      const claim = await this.#shard.claim(this.#spec.owner, this.#heldEpoch, this.#silentMs);
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
      this.#log.warn('another flusher has taken the shard over; standing by');
    } else {
      this.#failures++;
      this.#log.warn({ err: error, failures: this.#failures }, 'flushing failed and will begin again');
      this.#notBefore = performance.now() + backoffMs(this.#failures);
    }
  }

  async #own({ epoch, manifest }: Claim, leaving: AbortSignal): Promise<void> {
    this.#heldEpoch = epoch;
    this.#log.info({ epoch, replay: manifest !== undefined }, 'owner of the shard');
    this.#metrics.claimed(this.#number, epoch);
    const lost = new AbortController();
    const tenure = {
      epoch,
      leaving,
      // Made once and not for each batch: a signal remembers all that were ever derived from it.
      ending: AbortSignal.any([lost.signal, leaving, this.#stop]),
      over: AbortSignal.any([lost.signal, this.#halt]),
    };
    const beating = this.#beat(epoch, lost);
    try {
      await this.#reached('claimed');
      if (manifest !== undefined) await this.#replay(tenure, manifest);
      if (await this.#mayFlush(tenure)) await this.#flush(tenure);
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

  /** Resolves when all is in ClickHouse that came before the raise that this shard came by; to false at the end. */
  async #mayFlush({ ending }: Tenure): Promise<boolean> {
    if (this.#streams.kind !== 'events') return true;
    const { redis, keys, shards } = this.#spec;
    const raise = shards.raises.find((one) => one.shards > this.#number);
    if (raise === undefined || raise.at === 0) return true;
    const older = shards.raises.findLast(({ at }) => at < raise.at)?.shards ?? 0;
    const from = raise.at + RAISE_MS;
    for (;;) {
      if (shards.now() >= from) {
        const reading = Array.from({ length: older }, (_, shard) =>
          redis.xrange(keys.events(shard), '-', '+', 'COUNT', 1),
        );
        const oldest = await Promise.all(reading);
        if (oldest.every(([first]) => first === undefined || Number.parseInt(first[0], 10) >= from))
          return true;
      }
      if (ending.aborted) return false;
      await pause(LOOK_MS, ending);
    }
  }

  /** Cuts, inserts and finalizes batches until the tenure ends, and then once more what waits by then. */
  async #flush(tenure: Tenure): Promise<void> {
    const { redis } = this.#spec;
    const { numbers, rows } = this.#streams;
    const bytes = Math.max(Math.floor(INSERT_BYTES / numbers().length), LEAST_BATCH_BYTES);
    const bounds = { rows, bytes };
    // One batch is inserted while the next one is read. They are this tenure's: an earlier one may still be reading.
    const memory = [Buffer.allocUnsafeSlow(bytes), Buffer.allocUnsafeSlow(bytes)] as const;
    let batches = 0;
    const cut = (after?: string) => cutBatch(redis, this.#source, after, bounds, memory[batches++ % 2]);
    let ahead: Promise<Batch | undefined> | undefined;
    while (!tenure.over.aborted) {
      // (Not at the end: that flushes what waits, whoever has it next.)
      if (tenure.leaving.aborted && !this.#stop.aborted) return;
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
