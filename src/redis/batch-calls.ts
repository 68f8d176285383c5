// One script call for a batch of operations: its keys and arguments, its number in its lane, and what its reply means.

import { ServiceError } from '../errors.js';
import type { RedisHealth } from './health.js';
import { LUA } from './lua-codes.js';
import { ScriptCall } from './script-call.js';
import { type Script, scriptOf } from './scripts.js';
import type { NOT_HERE, Sender } from './sender.js';

/** An operation. It is told what became of it: one of the two, once, also within `add`. */
export interface Batched<Answer> {
  /** Of our monotonic clock; set by the batcher. */
  deadline: number;
  done(answer: Answer): void;
  /** @param error ServiceError `unavailable` (no answer in time), `overloaded` (too much waiting), or what `decode` gave */
  failed(error: Error): void;
}

/** How the operations of one script are laid out. The first key and the first three arguments are the batcher's. */
export interface BatchFormat<Op, Answer> {
  readonly script: Script;
  /** Hash tag of the slot that the operation's keys live in. */
  tag(op: Op): string;
  /** Whether a batch may mix tags: of one server, or of one node of a cluster. */
  readonly mixesTags: boolean;
  /** Whether the operation changes anything; a batch of reads needs no record. */
  writes(op: Op): boolean;
  /** Characters that the operation brings along, where they may be many: bounds a batch beside its count. */
  size?(op: Op): number;
  /**
   * Gives the call the arguments of a batch, and its keys; with `mixesTags` none.
   * @param address of the node that it goes to, as far as is known; undefined on one server
   */
  encode(ops: readonly Op[], call: ScriptCall, address: string | undefined): void;
  /** The script's reply -> one answer per operation, in order. An Error rejects its operation. */
  decode(
    ops: readonly Op[],
    reply: unknown,
    address: string | undefined,
  ): readonly (Answer | Error | typeof NOT_HERE)[];
}

/** Where a batch goes: to one tag's slot (or the one server), or to a node. */
export type Kind = 'tag' | 'node';

export interface BatchCallsOptions {
  readonly sender: Sender;
  readonly health: Pick<RedisHealth, 'isCircuitOpen' | 'addressOf' | 'refreshSlots'>;
  /** Key of a lane's record. */
  laneKey(tag: string, lane: string): string;
  /** Hash tag of a node's streams, where its lanes have their records, too. @param address of a node of a cluster */
  nodeTag(address: string): string | undefined;
  readonly isCluster: boolean;
  /** Told of each settled batch: operations in it, milliseconds until Redis answered. */
  readonly onBatch?: (size: number, ms: number) => void;
}

/** Seconds; far beyond any timeout, so that no copy of a batch can outlive its record. */
const LANE_MEMORY_S = 60;

export class BatchCalls<Op extends Batched<Answer>, Answer> {
  readonly #format: BatchFormat<Op, Answer>;
  readonly #options: BatchCallsOptions;
  /** Of batches that span a cluster node's slots, and of those that only read there. */
  readonly #nodeScripts: readonly [writing: Script, reading: Script];
  #sequence = 0;

  constructor(format: BatchFormat<Op, Answer>, options: BatchCallsOptions) {
    this.#format = format;
    this.#options = options;
    this.#nodeScripts = [
      withFlags(format.script, 'allow-cross-slot-keys'),
      withFlags(format.script, 'allow-cross-slot-keys,no-writes'),
    ];
  }

  /**
   * @param to address of a node; a tag, or anything on one server
   * @returns an answer for each, NOT_HERE if its key is not at that node; undefined if the node's stream is not, and nothing was done
   * @throws ServiceError `unavailable`
   */
  async ask(kind: Kind, to: string, lane: string, batch: readonly Op[]) {
    const { sender, health, isCluster, onBatch } = this.#options;
    const { writes } = this.#format;
    const started = performance.now();
    const sequence = batch.some(writes) ? ++this.#sequence : 0;
    const address = kind === 'node' ? to : isCluster ? health.addressOf(to) : undefined;
    const call = this.#call(kind, to, lane, batch, address, sequence > 0);
    const numbers = (lastMoment: number) => [sequence, lastMoment, LANE_MEMORY_S];
    const { deadline } = batch[0] as Op;
    const reply = await sender.send(call, deadline, numbers, sequence > 0);
    if (reply === LUA.SUPERSEDED) throw new ServiceError('unavailable');
    onBatch?.(batch.length, performance.now() - started);
    return reply === LUA.NO_STREAM ? undefined : this.#format.decode(batch, reply, address);
  }

  #call(
    kind: Kind,
    to: string,
    lane: string,
    batch: readonly Op[],
    address: string | undefined,
    isWriting: boolean,
  ): ScriptCall {
    const { isCluster, laneKey, nodeTag } = this.#options;
    const { script, mixesTags, tag } = this.#format;
    const call = new ScriptCall(isCluster && mixesTags ? this.#nodeScripts[isWriting ? 0 : 1] : script);
    call.key(laneKey(kind === 'node' ? (nodeTag(to) ?? tag(batch[0] as Op)) : to, lane));
    this.#format.encode(batch, call, address);
    return call;
  }
}

/** @param flags https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags, since Redis 7.0 */
function withFlags({ name, source }: Script, flags: string): Script {
  return scriptOf(name, `#!lua flags=${flags}\n${source}`);
}
