// A turn, in phases. Node reads the sockets that have something to read, one after the other; what came is dealt with once
// all of it is there:
//
//   sockets are read ──▶ answers are written ──▶ sockets are read ──▶ visits are looked up ──▶ batches are sent to Redis ──▶ …
//
// A system call leaves little of ours in the processor's caches (and where the kernel guards itself against Meltdown, no
// address translations at all). So what makes none is not done between two that do, but for all requests of a turn in one
// go. The fixed cost of a batch, in server and Redis, is that of many visits: so sockets are read twice for each,
// unless the first read took long. That takes microseconds where nothing more has come, and makes batches half as large
// again where the server is busy.

import { AsyncResource } from 'node:async_hooks';
import { performance } from 'node:perf_hooks'; // the global one is behind a getter

type Task = () => void;
type Phase = 'look-up' | 'answer';

/** Milliseconds; a read that took longer brought much, and who came with it has waited. */
const LONG_READ_MS = 1;

/** Of this turn; undefined while nothing is put off until its end. */
let lookUps: Task[] | undefined;
let sends: Task[] = [];
let answers: Task[] = [];
let began = 0;
/** Whether sockets may be, or are, read for it a second time. */
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

/** The rest, once the sockets that have something to read have been read. */
function onceRead(): void {
  setImmediate(lookUp);
  // An immediate of its own: promises that settle meanwhile are heard in between.
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
    lookUps = undefined; // what is put off from here on is the next turn's
    sends = [];
    for (const task of send) task();
  }
  // Those of the first read, too: who is answered may ask again in the second.
  const answer = answers;
  answers = [];
  for (const task of answer) task();
}

/**
 * Sends a batch once all that this turn brought for it was looked up, in the async context of the caller. One that is put
 * off while batches are sent is the next turn's.
 */
export function atEndOfTurn(send: Task): void {
  begun();
  const context = new AsyncResource('batch'); // AsyncResource.bind takes 16 us
  sends.push(() => context.runInAsyncScope(send));
}

/** What is dealt with together in one phase of each turn. */
export class TurnQueue<T> {
  readonly #phase: Phase;
  readonly #deal: (items: readonly T[]) => void;
  readonly #most: number;
  #items: T[] = [];

  /** @param most items that wait for each other: with one more, all are dealt with at once */
  constructor(phase: Phase, deal: (items: readonly T[]) => void, most = Number.POSITIVE_INFINITY) {
    this.#phase = phase;
    this.#deal = deal;
    this.#most = most;
  }

  push(item: T): void {
    const count = this.#items.push(item);
    if (count > this.#most) this.#dealNow();
    else if (count === 1) {
      const tasks = begun();
      (this.#phase === 'look-up' ? tasks : answers).push(this.#dealNow);
    }
  }

  readonly #dealNow = (): void => {
    const items = this.#items;
    if (items.length === 0) return; // they were too many, and are dealt with
    this.#items = [];
    this.#deal(items);
  };
}
