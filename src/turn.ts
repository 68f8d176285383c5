// A turn, in phases. Node reads the sockets that have something to read, one after the other; what came is dealt with once
// all of it is there:
//
//   sockets are read ──▶ answers are written ──▶ sockets are read ──▶ visits are looked up ──▶ batches are sent to Redis ──▶ …
//
// A system call leaves little of ours in the processor's caches (and where the kernel guards itself against Meltdown, no
// address translations at all). So what makes none is not done between two that do, but for all requests of a turn in one
// go. A batch costs server and Redis as much as many visits do, whatever is in it: so sockets are read twice for each,
// unless the first read brought many. That takes microseconds where nothing more has come, and makes batches half as
// large again where the server is busy.

import { AsyncResource } from 'node:async_hooks';

type Task = () => void;
type Phase = 'look-up' | 'answer';

/** Of this turn; undefined while nothing is put off until its end. */
let lookUps: Task[] | undefined;
let sends: Task[] = [];
let answers: Task[] = [];
/** Whether no more sockets are read for it. */
let isEnding = false;

function begun(): Task[] {
  if (lookUps === undefined) {
    lookUps = [];
    setImmediate(readAgain);
  }
  return lookUps;
}

function readAgain(): void {
  // Who only answers need not.
  if (begun().length === 0 && sends.length === 0) lookUps = undefined;
  else end();
  writeAnswers();
}

/** Once the sockets that are being read have been. */
function end(): void {
  if (isEnding) return;
  isEnding = true;
  setImmediate(lookUp);
  // An immediate of its own: promises that settle meanwhile are heard in between.
  setImmediate(finish);
}

function lookUp(): void {
  for (const task of begun()) task();
}

function finish(): void {
  const send = sends;
  isEnding = false;
  lookUps = undefined; // what is put off from here on is the next turn's
  sends = [];
  for (const task of send) task();
  writeAnswers();
}

function writeAnswers(): void {
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
  sends.push(AsyncResource.bind(send));
}

/** What is dealt with together in one phase of each turn. */
export class TurnQueue<T> {
  readonly #phase: Phase;
  readonly #deal: (items: readonly T[]) => void;
  readonly #most: number;
  #items: T[] = [];

  /** @param most items that wait for each other: with one more, all are dealt with at once, and the turn ends soon */
  constructor(phase: Phase, deal: (items: readonly T[]) => void, most = Number.POSITIVE_INFINITY) {
    this.#phase = phase;
    this.#deal = deal;
    this.#most = most;
  }

  push(item: T): void {
    const count = this.#items.push(item);
    if (count > this.#most) {
      this.#dealNow();
      end();
    } else if (count === 1) {
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
