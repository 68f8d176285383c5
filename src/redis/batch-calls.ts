// Sends a batch as one script call.

import { ServiceError } from '../errors.js';
import type { RedisHealth } from './health.js';
import { LUA } from './lua-codes.js';
import { ScriptCall } from './script-call.js';
import { type Script, withFlags } from './scripts.js';
import type { Sender } from './sender.js';

/** Either `done` or `failed` is called, once. This may happen before `Batcher.add` returns. */
export interface Batched<Answer> {
  /** By `performance.now()`. The batcher sets it. */
  deadline: number;
  done(answer: Answer): void;
  failed(error: Error): void;
}

export interface BatchFormat<Op, Answer> {
  readonly script: Script;
  tag(op: Op): string;
  /** A batch may mix tags of one node. */
  readonly mixesTags: boolean;
  writes(op: Op): boolean;
  /** True if the operation may wait some milliseconds for others to join its call. Absent if none may. */
  mayWait?(op: Op): boolean;
  /** Approximate number of characters; absent if they are few. */
  size?(op: Op): number;
  /** Adds arguments, and keys unless `mixesTags`, after the batcher's key and three arguments. */
  encode(ops: readonly Op[], call: ScriptCall, address: string | undefined): void;
  /** One answer per operation, in their order. An Error fails its operation. */
  decode(ops: readonly Op[], reply: unknown, address: string | undefined): readonly AnswerOf<Answer>[];
}

export type AnswerOf<Answer> = Answer | Error | typeof LUA.NOT_HERE;

/** @param reply `{i, answer, ...}` of the operations that have an answer @param errorOf is called for each number */
export function listedAnswers<Answer>(
  ops: number,
  reply: unknown,
  errorOf?: (code: number) => Error,
): (AnswerOf<Answer> | undefined)[] {
  const answers = new Array<AnswerOf<Answer> | undefined>(ops).fill(undefined);
  const list = reply as (Answer | number)[];
  for (let i = 0; i < list.length; i += 2) {
    const answer = list[i + 1];
    answers[(list[i] as number) - 1] =
      typeof answer === 'number' && errorOf !== undefined ? errorOf(answer) : (answer as Answer);
  }
  return answers;
}

export type Kind = 'tag' | 'node';

export interface BatchCallsOptions {
  readonly sender: Sender;
  readonly health: Pick<RedisHealth, 'isCircuitOpen' | 'addressOf' | 'refreshSlots'>;
  senderChannelKey(tag: string, channel: string): string;
  nodeTag(address: string): string | undefined;
  readonly isCluster: boolean;
  readonly onBatch?: (size: number, ms: number) => void;
}

/** Seconds that a channel is kept: it must outlive every copy of its batch. */
const CHANNEL_MEMORY_S = 60;

export class BatchCalls<Op extends Batched<Answer>, Answer> {
  readonly #nodeScripts: readonly [writing: Script, reading: Script];
  #sequence = 0;

  constructor(
    private readonly format: BatchFormat<Op, Answer>,
    private readonly options: BatchCallsOptions,
  ) {
    this.#nodeScripts = [
      withFlags(format.script, 'allow-cross-slot-keys'),
      withFlags(format.script, 'allow-cross-slot-keys,no-writes'),
    ];
  }

  async ask(
    kind: Kind,
    to: string,
    channel: string,
    batch: readonly Op[],
  ): Promise<readonly AnswerOf<Answer>[]> {
    const { sender, health, isCluster, senderChannelKey, nodeTag, onBatch } = this.options;
    const started = performance.now();
    const sequence = batch.some(this.format.writes) ? ++this.#sequence : 0;
    const address = kind === 'node' ? to : isCluster ? health.addressOf(to) : undefined;
    const { script, mixesTags, tag } = this.format;
    const call = new ScriptCall(isCluster && mixesTags ? this.#nodeScripts[sequence > 0 ? 0 : 1] : script);
    call.key(senderChannelKey(kind === 'node' ? (nodeTag(to) ?? tag(batch[0] as Op)) : to, channel));
    this.format.encode(batch, call, address);
    const numbers = (lastMoment: number) => [sequence, lastMoment, CHANNEL_MEMORY_S];
    const { deadline } = batch[0] as Op;
    const reply = await sender.send(call, deadline, numbers, sequence > 0);
    if (reply === LUA.SUPERSEDED) throw new ServiceError('unavailable');
    onBatch?.(batch.length, performance.now() - started);
    if (reply === LUA.NO_STREAM) return new Array(batch.length).fill(LUA.NOT_HERE);
    return this.format.decode(batch, reply, address);
  }
}
