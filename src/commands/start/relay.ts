// Passes a worker's question on to all workers, and what they told back to it, and what one shares to the others; see
// ../siblings.ts. What it is about is the workers' own business.

import type { ChildProcess } from 'node:child_process';
import type { FromRelay, ToRelay } from '../siblings.js';

/** Milliseconds after which a worker that has not answered is left out. */
const ANSWER_TIMEOUT_MS = 1_000;

/** Messages to one worker that have not left this process. One that is frozen reads none, and is left out, too. */
const MOST_UNSENT = 100;

type OnTold = (name: string, value: unknown) => void;

export class Relay {
  readonly #workers = new Map<string, ChildProcess>();
  readonly #questions = new Map<number, OnTold>();
  readonly #unsent = new WeakMap<ChildProcess, number>();
  #count = 0;

  /** Takes a worker in that is up, until it has exited. @param name the same when it is started again */
  join(name: string, worker: ChildProcess): void {
    this.#workers.set(name, worker);
    worker.on('message', (received) => {
      const message = received as ToRelay;
      if ('ask' in message) this.#ask(worker, message.ask);
      else if ('told' in message) this.#questions.get(message.told)?.(name, message.value);
      else if ('share' in message) this.#share(worker, { shared: message.share });
    });
    worker.once('exit', () => {
      if (this.#workers.get(name) === worker) this.#workers.delete(name);
    });
  }

  #share(from: ChildProcess, message: FromRelay): void {
    for (const worker of this.#workers.values()) {
      const unsent = this.#unsent.get(worker) ?? 0;
      if (worker === from || unsent >= MOST_UNSENT) continue;
      this.#unsent.set(worker, unsent + 1);
      worker.send(message, () => this.#unsent.set(worker, (this.#unsent.get(worker) ?? 1) - 1));
    }
  }

  #ask(asker: ChildProcess, heard: number): void {
    const question = ++this.#count;
    const waiting = new Set(this.#workers.keys());
    const values: Record<string, unknown> = {};
    const end = () => {
      clearTimeout(timer);
      this.#questions.delete(question);
      send(asker, { heard, values });
    };
    const timer = setTimeout(end, ANSWER_TIMEOUT_MS);
    this.#questions.set(question, (name, value) => {
      values[name] = value;
      waiting.delete(name);
      if (waiting.size === 0) end();
    });
    for (const worker of this.#workers.values()) send(worker, { tell: question });
  }
}

function send(worker: ChildProcess, message: FromRelay): void {
  worker.send(message, () => {}); // one that has just gone is left out
}
