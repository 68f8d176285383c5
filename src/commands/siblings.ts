// A scrape of /metrics reaches any of the workers on their port, and shows the figures of all of them. The worker that it
// reaches asks `start`, which asks every worker; see start/relay.ts.
//
//   worker ──gather──▶ start ──collect──▶ every worker ──reply──▶ start ──gathered──▶ worker

import { ServiceError } from '../errors.js';

/** Messages to and from the parent process. */
export interface Channel {
  send(message: object): void;
  listen(onMessage: (message: unknown) => void): void;
}

/** What a worker sends; numbers tell questions apart. */
export type ToRelay = { readonly gather: number } | { readonly reply: number; readonly value: unknown };
/** What `start` sends; `gathered` has each worker's reply, by the worker's name. */
export type FromRelay =
  | { readonly collect: number }
  | { readonly gathered: number; readonly values: Readonly<Record<string, unknown>> };

/** More than `start` waits for a worker that does not answer. */
const TIMEOUT_MS = 1_500;

/** The workers of one `start`, as one of them sees them. */
export class WorkerSiblings {
  /** How many there are, with this one. */
  readonly workers: number;
  readonly #channel: Channel;
  /** By question, each for TIMEOUT_MS at most: one of each request for figures. */
  readonly #waiting = new Map<number, (values: Readonly<Record<string, unknown>>) => void>();
  #questions = 0;
  #read: () => Promise<unknown> = () => Promise.reject(new Error('nothing to gather'));

  constructor(channel: Channel, workers: number) {
    this.workers = workers;
    this.#channel = channel;
    channel.listen((received) => {
      if (typeof received !== 'object' || received === null) return; // the parent is another program
      const message = received as FromRelay;
      if ('collect' in message) {
        this.#read().then(
          (value) => this.#send({ reply: message.collect, value }),
          () => {}, // left out, like one that does not answer
        );
      } else if ('gathered' in message) {
        this.#waiting.get(message.gathered)?.(message.values);
      }
    });
  }

  /**
   * @param read gives this worker's value, whenever any worker gathers
   * @returns gathers the values of all workers, this one among them, by their names; one that does not answer is left out.
   *   It throws ServiceError `unavailable` where `start` does not answer.
   */
  gather<T>(read: () => Promise<T>): () => Promise<Readonly<Record<string, T>>> {
    this.#read = read;
    return () =>
      new Promise((resolve, reject) => {
        const question = ++this.#questions;
        const end = () => {
          clearTimeout(timer);
          this.#waiting.delete(question);
        };
        const timer = setTimeout(() => {
          end();
          reject(new ServiceError('unavailable', 'The other workers could not be asked.'));
        }, TIMEOUT_MS);
        this.#waiting.set(question, (values) => {
          end();
          resolve(values as Readonly<Record<string, T>>);
        });
        this.#send({ gather: question });
      });
  }

  #send(message: ToRelay): void {
    this.#channel.send(message);
  }
}
