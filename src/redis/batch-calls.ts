// Makes the script call of a batch, with its number in its lane, and decodes the reply.

import { ServiceError } from '../errors.js';
import type { RedisHealth } from './health.js';
import { LUA } from './lua-codes.js';
import { ScriptCall } from './script-call.js';
import { type Script, withFlags } from './scripts.js';
import type { NOT_HERE, Sender } from './sender.js';

/** An operation. One of `done` and `failed` is called once, maybe within `add`. */
export interface Batched<Answer> {
  /** Monotonic; set by the batcher. */
  deadline: number;
  done(answer: Answer): void;
  /** @param error ServiceError `unavailable`, `overloaded`, or an error of `decode` */
  failed(error: Error): void;
}

/** Encodes the operations of one script. The first key and the first three arguments are the batcher's. */
export interface BatchFormat<Op, Answer> {
  readonly script: Script;
  /** Hash tag of the operation's keys. */
  tag(op: Op): string;
  /** A batch may mix the tags of one server, or of one node of a cluster. */
  readonly mixesTags: boolean;
  /** The operation may change something; a batch of reads needs no record. */
  writes(op: Op): boolean;
  /** Approximate characters of an operation, if they may be many: bounds a batch. */
  size?(op: Op): number;
  /**
   * Adds arguments to the call, and keys unless `mixesTags`.
   * @param address of the node, if known; undefined on one server
   */
  encode(ops: readonly Op[], call: ScriptCall, address: string | undefined): void;
  /** The script's reply -> one answer per operation, in order. An Error fails its operation. */
  decode(
    ops: readonly Op[],
    reply: unknown,
    address: string | undefined,
  ): readonly (Answer | Error | typeof NOT_HERE)[];
}

/** Destination of a batch: one tag's slot (or the single server), or a node. */
export type Kind = 'tag' | 'node';

export interface BatchCallsOptions {
  readonly sender: Sender;
  readonly health: Pick<RedisHealth, 'isCircuitOpen' | 'addressOf' | 'refreshSlots'>;
  laneKey(tag: string, lane: string): string;
  /** Hash tag of a node's streams, also used for the records of its lanes. @param address of a node of a cluster */
  nodeTag(address: string): string | undefined;
  readonly isCluster: boolean;
  /** Called after each batch with its size and latency in milliseconds. */
  readonly onBatch?: (size: number, ms: number) => void;
}

/** Seconds, far longer than any time-out: no copy of a batch may outlive its record. */
const LANE_MEMORY_S = 60;

export class BatchCalls<Op extends Batched<Answer>, Answer> {
  readonly #format: BatchFormat<Op, Answer>;
  readonly #options: BatchCallsOptions;
  /** Scripts for batches that span the slots of a cluster's node. */
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
   * @returns one answer per operation, NOT_HERE if its keys are not at that node; undefined if the node's stream is not there: then
   *   nothing was done
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
