// The consumer group of one stream. All flushers share one consumer name: only an entry's idle time matters.

import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
import { loadScript, runScript, type ScriptArg } from '../redis/scripts.js';
import {
  type Batch,
  type Bounds,
  collectBatch,
  type Entry,
  type Source,
  type StreamEntry,
} from './reader.js';

const ACK = loadScript<number>('flush/ackEntries');

const GROUP = 'flush';
const CONSUMER = 'flush';
/** Entries per command. Redis takes 2 ms to claim, and 4 ms to delete, so many. */
const CHUNK = 500;

export interface Refused {
  /** The line without its newline. */
  readonly line: Buffer;
  readonly code: number;
  readonly reason: string;
}

const NOT_OURS = 'not a batch of events: another program put it into the stream';

export class StreamGroup {
  readonly #redis: RedisClient;
  readonly #source: Source;
  readonly #state: string;
  readonly #dead: string;

  constructor(redis: RedisClient, keys: StreamKeys, number: number, source: Source) {
    this.#redis = redis;
    this.#source = source;
    this.#state = keys.eventsState(number);
    this.#dead = keys.eventsDead(number);
  }

  async readNew(bounds: Bounds, memory?: Buffer): Promise<Batch | undefined> {
    const { stream } = this.#source;
    const page = async (count: number) => {
      const reply = await this.#redis.xreadgroupBuffer(
        ...(['GROUP', GROUP, CONSUMER, 'COUNT', count, 'STREAMS', stream, '>'] as const),
      );
      return (reply === null ? [] : entriesIn(reply)) as StreamEntry[];
    };
    return collectBatch((count) => this.#withGroup(() => page(count)), this.#source, bounds, memory);
  }

  async readAbandoned(idleMs: number, bounds: Bounds, memory?: Buffer): Promise<Batch | undefined> {
    let cursor: string | undefined = '0-0';
    const page = async (count: number): Promise<StreamEntry[]> => {
      const found: StreamEntry[] = [];
      // XAUTOCLAIM scans at most ten times `COUNT` entries: an empty page may not be the last.
      while (found.length < count && cursor !== undefined) {
        const [next, entries] = await this.#claim(idleMs, cursor, count - found.length);
        cursor = next === '0-0' ? undefined : next;
        found.push(...entries);
      }
      return found;
    };
    return collectBatch((count) => this.#withGroup(() => page(count)), this.#source, bounds, memory);
  }

  async #claim(idleMs: number, from: string, count: number): Promise<[next: string, StreamEntry[]]> {
    const { stream } = this.#source;
    const reply = await this.#redis.callBuffer(
      ...(['XAUTOCLAIM', stream, GROUP, CONSUMER, idleMs, from, 'COUNT', count] as const),
    );
    const [next, entries] = reply as [Buffer, StreamEntry[]];
    return [next.toString('latin1'), entries];
  }

  /** Resets the idle time. @returns false if another flusher has finished some entries */
  async keep(entries: readonly Entry[]): Promise<boolean> {
    const { stream } = this.#source;
    let kept = 0;
    for (let i = 0; i < entries.length; i += CHUNK) {
      const ids = entries.slice(i, i + CHUNK).map(({ id }) => id);
      const reply = await this.#redis.call('XCLAIM', stream, GROUP, CONSUMER, 0, ...ids, 'JUSTID');
      kept += (reply as string[]).length;
    }
    return kept === entries.length;
  }

  /** @param refused lines that become dead letters, like `foreignEntries`; after a crash perhaps twice */
  async ack(
    entries: readonly Entry[],
    refused: readonly Refused[],
    foreignEntries: readonly string[],
  ): Promise<void> {
    const keys = [this.#source.stream, this.#state, this.#dead];
    let letters: (ScriptArg | Buffer)[] = [
      refused.length + foreignEntries.length,
      ...refused.flatMap(({ line, code, reason }) => ['line', code, reason, line]),
      ...foreignEntries.flatMap((entry) => ['entry', 0, NOT_OURS, entry]),
    ];
    for (let i = 0; i < entries.length; i += CHUNK) {
      const some = entries.slice(i, i + CHUNK).flatMap(({ id, rows, bytes }) => [id, rows, bytes]);
      await runScript(this.#redis, ACK, keys, [GROUP, ...letters, ...some]);
      letters = [0];
    }
  }

  /** Makes a missing group, but no stream: a Redis that lost its data must not be written to. */
  async #withGroup(read: () => Promise<StreamEntry[]>): Promise<StreamEntry[]> {
    try {
      return await read();
    } catch (error) {
      if (!String((error as Error).message).startsWith('NOGROUP')) throw error;
      if ((await this.#redis.exists(this.#source.stream)) === 0) return [];
      await this.#redis.xgroup('CREATE', this.#source.stream, GROUP, '0').catch((late: Error) => {
        if (!late.message.startsWith('BUSYGROUP')) throw late;
      });
      return await read();
    }
  }
}

/** @param reply of XREADGROUP: pairs in RESP2, a map in RESP3 */
function entriesIn(reply: unknown): unknown {
  if (Array.isArray(reply)) return Array.isArray(reply[0]) ? reply[0][1] : reply[1];
  return reply instanceof Map ? [...reply.values()][0] : Object.values(reply as object)[0];
}
