// Gathers a value from every worker; see ../siblings.ts.

import type { ChildProcess } from 'node:child_process';
import type { FromRelay, ToRelay } from '../siblings.js';

const ANSWER_TIMEOUT_MS = 1_000;

type OnReply = (name: string, value: unknown) => void;

export class Relay {
  readonly #workers = new Map<string, ChildProcess>();
  readonly #questions = new Map<number, OnReply>();
  #count = 0;

  join(name: string, worker: ChildProcess): void {
    this.#workers.set(name, worker);
    worker.on('message', (received) => {
      const message = received as ToRelay;
      if ('gather' in message) this.#gather(worker, message.gather);
      else if ('reply' in message) this.#questions.get(message.reply)?.(name, message.value);
    });
    worker.once('exit', () => {
      if (this.#workers.get(name) === worker) this.#workers.delete(name);
    });
  }

  #gather(asking: ChildProcess, gathered: number): void {
    const question = ++this.#count;
    const waiting = new Set(this.#workers.keys());
    const values: Record<string, unknown> = {};
    const end = () => {
      clearTimeout(timer);
      this.#questions.delete(question);
      send(asking, { gathered, values });
    };
    const timer = setTimeout(end, ANSWER_TIMEOUT_MS);
    this.#questions.set(question, (name, value) => {
      values[name] = value;
      waiting.delete(name);
      if (waiting.size === 0) end();
    });
    for (const worker of this.#workers.values()) send(worker, { collect: question });
  }
}

function send(worker: ChildProcess, message: FromRelay): void {
  worker.send(message, () => {}); // the worker may have ended
}
