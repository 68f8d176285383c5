// What one `serve` worker of `start` asks of all of them: a request reaches any of the workers on their port, and /metrics
// is about all. `start` passes the question on and the answers back; see start/relay.ts.
//
//   worker ──ask──▶ start ──tell──▶ every worker ──told──▶ start ──heard──▶ worker

import { ServiceError } from '../errors.js';

/** Messages to and from the parent process. */
export interface Channel {
  send(message: object): void;
  listen(onMessage: (message: unknown) => void): void;
}

/** What a worker sends; numbers tell questions apart. */
export type ToRelay = { readonly ask: number } | { readonly told: number; readonly value: unknown };
/** What `start` sends; `heard` has what each worker told, by the worker's name. */
export type FromRelay =
  | { readonly tell: number }
  | { readonly heard: number; readonly values: Readonly<Record<string, unknown>> };

/** More than `start` waits for a worker that does not answer. */
const TIMEOUT_MS = 1_500;

/** The workers of one `start`, as one of them sees them. */
export class WorkerSiblings {
  /** How many there are, with this one. */
  readonly workers: number;
  readonly #channel: Channel;
  readonly #asked = new Map<number, (values: Readonly<Record<string, unknown>>) => void>();
  #questions = 0;
  #tell: () => Promise<unknown> = () => Promise.reject(new Error('nothing to tell'));

  constructor(channel: Channel, workers: number) {
    this.workers = workers;
    this.#channel = channel;
    channel.listen((received) => {
      if (typeof received !== 'object' || received === null) return; // the parent is another program
      const message = received as FromRelay;
      if ('tell' in message) {
        this.#tell().then(
          (value) => this.#send({ told: message.tell, value }),
          () => {}, // left out, like one that does not answer
        );
      } else if ('heard' in message) {
        this.#asked.get(message.heard)?.(message.values);
      }
    });
  }

  /**
   * Answers the siblings' questions with what `tell` gives.
   * @returns asks all workers, this one among them: what each told, by its name; one that does not answer is left out.
   *   It throws ServiceError `unavailable` where `start` does not answer.
   */
  gather<T>(tell: () => Promise<T>): () => Promise<Readonly<Record<string, T>>> {
    this.#tell = tell;
    return () =>
      new Promise((resolve, reject) => {
        const question = ++this.#questions;
        const end = () => {
          clearTimeout(timer);
          this.#asked.delete(question);
        };
        const timer = setTimeout(() => {
          end();
          reject(new ServiceError('unavailable', 'The other workers could not be asked.'));
        }, TIMEOUT_MS);
        this.#asked.set(question, (values) => {
          end();
          resolve(values as Readonly<Record<string, T>>);
        });
        this.#send({ ask: question });
      });
  }

  #send(message: ToRelay): void {
    this.#channel.send(message);
  }
}
