// The phases of a tick of the event loop:
//
//   read sockets ──▶ write answers ──▶ read sockets ──▶ look up visits ──▶ send batches to Redis ──▶ …
//
// System calls evict our code and data from the processor's caches, so other work is done for all requests of a tick
// together. A batch has the fixed cost of many visits, so sockets are read twice per batch, unless the first read took
// long.

import { AsyncResource } from 'node:async_hooks';
import { performance } from 'node:perf_hooks'; // the global is a slow getter

type Task = () => void;
type Phase = 'look-up' | 'answer';

/** After a read of more milliseconds there is no second one, because the first requests have waited long enough. */
const LONG_READ_MS = 1;

let lookUps: Task[] | undefined;
let sends: Task[] = [];
let answers: Task[] = [];
let began = 0;
let readsAgain = false;

function begun(): Task[] {
  if (lookUps === undefined) {
    lookUps = [];
    began = performance.now();
    readsAgain = true;
    onceRead();
  }
  return lookUps;
}

function onceRead(): void {
  setImmediate(lookUp);
  // A separate immediate, so that promises' reactions run in between.
  setImmediate(finish);
}

function lookUp(): void {
  const tasks = begun();
  readsAgain &&= tasks.length + sends.length > 0 && performance.now() - began < LONG_READ_MS;
  if (!readsAgain) for (const task of tasks) task();
}

function finish(): void {
  if (readsAgain) {
    readsAgain = false;
    onceRead();
  } else {
    const send = sends;
    lookUps = undefined; // further work belongs to the next tick
    sends = [];
    for (const task of send) task();
  }
  // Answers are written after the first read, too: clients that get one may send again before the second.
  const answer = answers;
  answers = [];
  for (const task of answer) task();
}

/**
 * Calls `send` at the end of this tick, after all look-ups, in the async context of the caller. What `send` itself adds
 * is for the next tick.
 */
export function atEndOfTick(send: Task): void {
  begun();
  const context = new AsyncResource('batch'); // AsyncResource.bind takes 16 µs
  sends.push(() => context.runInAsyncScope(send));
}

export class TickQueue<T> {
  #items: T[] = [];

  /** @param most items that may wait; with one more, all are handled immediately */
  constructor(
    private readonly phase: Phase,
    private readonly deal: (items: readonly T[]) => void,
    private readonly most = Number.POSITIVE_INFINITY,
  ) {}

  push(item: T): void {
    const count = this.#items.push(item);
    if (count > this.most) this.#dealNow();
    else if (count === 1) {
      const tasks = begun();
      (this.phase === 'look-up' ? tasks : answers).push(this.#dealNow);
    }
  }

  readonly #dealNow = (): void => {
    const items = this.#items;
    if (items.length === 0) return;
    this.#items = [];
    this.deal(items);
  };
}
