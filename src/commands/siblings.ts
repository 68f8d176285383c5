// A scrape of /metrics reaches one of the workers on their shared port, and must show the metrics of all. That worker asks
// `start`, which asks every worker; see start/relay.ts.
//
//   worker ──gather──▶ start ──collect──▶ every worker ──reply──▶ start ──gathered──▶ worker

import { ServiceError } from '../errors.js';

/** Messages to and from the parent process. */
export interface Channel {
  send(message: object): void;
  listen(onMessage: (message: unknown) => void): void;
}

/** Messages of a worker, with the number of a question. */
export type ToRelay = { readonly gather: number } | { readonly reply: number; readonly value: unknown };
/** Messages of `start`; `gathered` has each worker's reply, by the worker's name. */
export type FromRelay =
  | { readonly collect: number }
  | { readonly gathered: number; readonly values: Readonly<Record<string, unknown>> };

/** Longer than `start` waits for a worker. */
const TIMEOUT_MS = 1_500;

/** The workers of one `start`, seen by one of them. */
export class WorkerSiblings {
  /** Their number, including this one. */
  readonly workers: number;
  readonly #channel: Channel;
  /** By question, each for TIMEOUT_MS at most. */
  readonly #waiting = new Map<number, (values: Readonly<Record<string, unknown>>) => void>();
  #questions = 0;
  #read: () => Promise<unknown> = () => Promise.reject(new Error('nothing to gather'));

  constructor(channel: Channel, workers: number) {
    this.workers = workers;
    this.#channel = channel;
    channel.listen((received) => {
      if (typeof received !== 'object' || received === null) return; // from another program
      const message = received as FromRelay;
      if ('collect' in message) {
        this.#read().then(
          (value) => this.#send({ reply: message.collect, value }),
          () => {}, // `start` leaves this worker out
        );
      } else if ('gathered' in message) {
        this.#waiting.get(message.gathered)?.(message.values);
      }
    });
  }

  /**
   * @param read returns this worker's value, whenever any worker gathers
   * @returns a function that gathers the values of all workers, by name, without workers that do not answer. It throws
   *   ServiceError `unavailable` if `start` does not answer.
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
