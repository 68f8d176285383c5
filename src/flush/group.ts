// The consumer group of one stream. All flushers read as one consumer: a flusher holds its entries by touching them.
// A touch gives the entry a random delivery count. Entries whose count has not changed between two scans were abandoned,
// and any flusher takes them over. Scans are timed by the flusher's own clock: Redis's may jump. If two flushers hold
// an entry, both insert the same rows.

import { randomInt } from 'node:crypto';
import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
import { loadScript, runScript, type ScriptArg } from '../redis/scripts.js';
import type { Refused } from './insert-lines.js';
import { type Batch, type Bounds, collectBatch, PAGE_BYTES, type StreamEntry } from './reader.js';

const ACK = loadScript<number>('flush/ackEntries');
const CREATE = loadScript<0 | 1>('flush/createGroup');

const GROUP = 'flush';
const CONSUMER = 'flush';
/** Milliseconds between two scans. A flusher touches its entries three times in between. */
const ABANDONED_MS = 15_000;
/** Redis takes 4 ms to delete so many entries. */
const ACKED_PER_CALL = 500;
/** Redis takes 2 ms to claim so many entries. */
const IDS_PER_CALL = 1_000;
const NOT_OURS = 'not a batch of events: another program put it into the stream';

export interface HeldBatch extends Batch {
  readonly wasAbandoned: boolean;
  /** Lets other flushers take entries that aren't acknowledged. */
  readonly release: () => void;
}

export interface GroupSpec {
  readonly redis: RedisClient;
  readonly keys: StreamKeys;
  readonly number: number;
  readonly isOfVisits: boolean;
  readonly bounds: Bounds;
  readonly abandonedMs?: number | undefined;
}

export class StreamGroup {
  readonly #spec: GroupSpec;
  readonly #stream: string;
  readonly #abandonedMs: number;
  /** Two batches at a time: one is inserted while the next is read. */
  readonly #memory: readonly Buffer[];
  #batches = 0;
  /** Entries that this flusher holds. A touch drops acknowledged ones. */
  readonly #held = new Set<string>();
  #touching: NodeJS.Timeout | undefined;
  #touchedAt = 0;
  /** Pending entries and their delivery counts at the last scan. */
  #seen: ReadonlyMap<string, number> = new Map();
  #scannedAt = Number.NEGATIVE_INFINITY;
  /** Entries that the last scan found abandoned, and that no batch has yet. */
  #abandoned: string[] = [];

  constructor(spec: GroupSpec) {
    this.#spec = spec;
    this.#stream = spec.keys.events(spec.number);
    this.#abandonedMs = spec.abandonedMs ?? ABANDONED_MS;
    this.#memory = [0, 1].map(() => Buffer.allocUnsafeSlow(spec.bounds.bytes + PAGE_BYTES));
  }

  /** Reads abandoned entries if there are any, else new ones. The batch is held until its `release`. */
  async read(): Promise<HeldBatch | undefined> {
    if (performance.now() - this.#scannedAt >= this.#abandonedMs) await this.#scan();
    return (await this.#collect(true)) ?? (await this.#collect(false));
  }

  /** False if other flushers have acknowledged entries of the batch, because this one or Redis was frozen. */
  async isPending({ entries }: Batch): Promise<boolean> {
    if (performance.now() - this.#touchedAt >= this.#abandonedMs) await this.#touch();
    return entries.every(({ id }) => this.#held.has(id));
  }

  /** @param refused lines that become dead letters, like foreign entries; after a crash perhaps twice */
  async ack({ entries, foreignEntries }: Batch, refused: readonly Refused[]): Promise<void> {
    const { redis, keys, number } = this.#spec;
    let letters: (ScriptArg | Buffer)[] = [
      refused.length + foreignEntries.length,
      ...refused.flatMap(({ line, code, reason }) => ['line', code, reason, line]),
      ...foreignEntries.flatMap((entry) => ['entry', 0, NOT_OURS, entry]),
    ];
    for (let i = 0; i < entries.length; i += ACKED_PER_CALL) {
      const some = entries.slice(i, i + ACKED_PER_CALL).flatMap(({ id, rows, bytes }) => [id, rows, bytes]);
      const touched = [this.#stream, keys.eventsState(number), keys.eventsDead(number)];
      await runScript(redis, ACK, touched, [GROUP, ...letters, ...some]);
      letters = [0];
    }
  }

  async #collect(wasAbandoned: boolean): Promise<HeldBatch | undefined> {
    const { bounds, number, isOfVisits } = this.#spec;
    const ids: string[] = [];
    const release = () => this.#release(ids);
    const nextPage = async (count: number) => {
      const page = await (wasAbandoned ? this.#claim(count) : this.#readNew(count));
      const found = page.map(([id]) => id.toString('latin1'));
      ids.push(...found);
      this.#hold(found);
      return page;
    };
    const memory = this.#memory[this.#batches % 2];
    try {
      const batch = await collectBatch(nextPage, isOfVisits ? number : undefined, bounds, memory);
      if (batch === undefined) return undefined;
      this.#batches++;
      return { ...batch, wasAbandoned, isFull: batch.isFull || wasAbandoned, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  #hold(ids: readonly string[]): void {
    if (ids.length === 0) return;
    if (this.#held.size === 0) this.#touchedAt = performance.now();
    for (const id of ids) this.#held.add(id);
    this.#touching ??= setInterval(() => this.#touch().catch(() => {}), this.#abandonedMs / 3).unref();
  }

  #release(ids: readonly string[]): void {
    for (const id of ids) this.#held.delete(id);
    if (this.#held.size > 0) return;
    clearInterval(this.#touching);
    this.#touching = undefined;
  }

  async #touch(): Promise<void> {
    const began = performance.now();
    const ids = [...this.#held];
    for (let i = 0; i < ids.length; i += IDS_PER_CALL) {
      const some = ids.slice(i, i + IDS_PER_CALL);
      const options = ['RETRYCOUNT', randomInt(2 ** 31), 'JUSTID'];
      const claimed = this.#spec.redis.call('XCLAIM', this.#stream, GROUP, CONSUMER, 0, ...some, ...options);
      const pending = new Set((await unlessNoGroup(claimed)) as string[] | undefined);
      for (const id of some) if (!pending.has(id)) this.#held.delete(id);
    }
    this.#touchedAt = began;
  }

  async #scan(): Promise<void> {
    const seen = new Map<string, number>();
    const abandoned: string[] = [];
    for (let from = '-'; ; ) {
      const reply = this.#spec.redis.xpending(this.#stream, GROUP, from, '+', IDS_PER_CALL);
      const page = ((await unlessNoGroup(reply)) ?? []) as [string, string, number, number][];
      for (const [id, _consumer, _idleMs, count] of page) {
        seen.set(id, count);
        if (this.#seen.get(id) === count && !this.#held.has(id)) abandoned.push(id);
      }
      if (page.length < IDS_PER_CALL) break;
      from = `(${page.at(-1)?.[0]}`;
    }
    this.#seen = seen;
    this.#abandoned = abandoned;
    this.#scannedAt = performance.now();
  }

  async #claim(count: number): Promise<StreamEntry[]> {
    const ids = this.#abandoned.splice(0, count);
    if (ids.length === 0) return [];
    const claimed = this.#spec.redis.callBuffer('XCLAIM', this.#stream, GROUP, CONSUMER, 0, ...ids);
    return ((await unlessNoGroup(claimed)) ?? []) as StreamEntry[];
  }

  async #readNew(count: number): Promise<StreamEntry[]> {
    const found = await unlessNoGroup(this.#readGroup(count));
    if (found !== undefined) return found;
    // Without MKSTREAM: a Redis that lost its data must not be written to.
    const made = await runScript(this.#spec.redis, CREATE, [this.#stream], [GROUP]);
    return made === 1 ? this.#readGroup(count) : [];
  }

  async #readGroup(count: number): Promise<StreamEntry[]> {
    const reply = await this.#spec.redis.xreadgroupBuffer(
      ...(['GROUP', GROUP, CONSUMER, 'COUNT', count, 'STREAMS', this.#stream, '>'] as const),
    );
    const [[, entries] = []] = (reply ?? []) as [stream: Buffer, entries: StreamEntry[]][];
    return entries ?? [];
  }
}

async function unlessNoGroup<T>(reply: Promise<T>): Promise<T | undefined> {
  try {
    return await reply;
  } catch (error) {
    if ((error as Error).message.startsWith('NOGROUP')) return undefined;
    throw error;
  }
}
