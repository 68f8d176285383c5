// The consumer group of one stream. Each batch has a consumer of its own, which its flusher touches. Any flusher claims
// the entries of a consumer that was idle.

import { randomUUID } from 'node:crypto';
import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
import { loadScript, runScript, type ScriptArg } from '../redis/scripts.js';
import type { Refused } from './insert-lines.js';
import { type Batch, type Bounds, collectBatch, PAGE_BYTES, type StreamEntry } from './reader.js';

const CLAIM = loadScript<number>('flush/claimEntries');
const ACK = loadScript<number>('flush/ackEntries');
const CREATE = loadScript<0 | 1>('flush/createGroup');

const GROUP = 'flush';
/** Entries that were idle for so long are claimed. With the scans, those of a dead flusher wait 15 s at most. */
const ABANDONED_MS = 10_000;
/** Redis takes 4 ms to delete so many entries. */
const ACKED_PER_CALL = 500;
/** Above every id: XREADGROUP finds nothing, but resets the consumer's idle time. */
const NO_ENTRY = '18446744073709551615-0';
const NOT_OURS = 'not a batch of events: another program put it into the stream';

export interface HeldBatch extends Batch {
  readonly consumer: string;
  readonly wasAbandoned: boolean;
  /** Lets other flushers claim entries that aren't acknowledged. */
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
  /** The consumer of the next batch. */
  #consumer = randomUUID();
  /** Two batches at a time: one is inserted while the next is read. */
  readonly #memory: readonly Buffer[];
  #batches = 0;
  #scannedAt = Number.NEGATIVE_INFINITY;

  constructor(spec: GroupSpec) {
    this.#spec = spec;
    this.#stream = spec.keys.events(spec.number);
    this.#abandonedMs = spec.abandonedMs ?? ABANDONED_MS;
    this.#memory = [0, 1].map(() => Buffer.allocUnsafeSlow(spec.bounds.bytes + PAGE_BYTES));
  }

  /** Reads abandoned entries if there are any, else new ones. The batch is held until its `release`. */
  async read(): Promise<HeldBatch | undefined> {
    if (performance.now() - this.#scannedAt >= this.#abandonedMs / 4) {
      const abandoned = await this.#collect(true);
      if (abandoned !== undefined) return abandoned;
      this.#scannedAt = performance.now();
    }
    return this.#collect(false);
  }

  /** False if another flusher has claimed entries, because this one or Redis was frozen. */
  async holds({ consumer, entries }: HeldBatch): Promise<boolean> {
    const [, , , consumers] = (await unlessNoGroup(this.#spec.redis.xpending(this.#stream, GROUP))) ?? [];
    const pending = (consumers ?? []) as [name: string, pending: string][];
    return pending.some(([name, count]) => name === consumer && Number(count) === entries.length);
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
    const consumer = this.#consumer;
    // If a reply is lost, its entries are claimed like a dead flusher's.
    this.#consumer = randomUUID();
    const nextPage = (count: number, after: string) =>
      wasAbandoned ? this.#claim(consumer, count, after) : this.#readNew(consumer, count);
    const memory = this.#memory[this.#batches % 2];
    const batch = await collectBatch(nextPage, isOfVisits ? number : undefined, bounds, memory);
    if (batch === undefined) {
      this.#consumer = consumer;
      return undefined;
    }
    this.#batches++;
    const touching = setInterval(() => this.#touch(consumer), this.#abandonedMs / 4).unref();
    const release = () => clearInterval(touching);
    return { ...batch, consumer, wasAbandoned, isFull: batch.isFull || wasAbandoned, release };
  }

  /** Never throws: `holds` asks again. */
  #touch(consumer: string): Promise<unknown> {
    return this.#readGroup(consumer, 1, NO_ENTRY).catch(() => {});
  }

  async #claim(consumer: string, count: number, after: string): Promise<StreamEntry[]> {
    const args = [GROUP, consumer, this.#abandonedMs, count, after];
    const claimed = await unlessNoGroup(runScript(this.#spec.redis, CLAIM, [this.#stream], args));
    return claimed ? this.#readGroup(consumer, count, after) : [];
  }

  async #readNew(consumer: string, count: number): Promise<StreamEntry[]> {
    const found = await unlessNoGroup(this.#readGroup(consumer, count, '>'));
    if (found !== undefined) return found;
    const made = await runScript(this.#spec.redis, CREATE, [this.#stream], [GROUP]);
    return made === 1 ? this.#readGroup(consumer, count, '>') : [];
  }

  async #readGroup(consumer: string, count: number, after: string): Promise<StreamEntry[]> {
    const reply = await this.#spec.redis.xreadgroupBuffer(
      ...(['GROUP', GROUP, consumer, 'COUNT', count, 'STREAMS', this.#stream, after] as const),
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
