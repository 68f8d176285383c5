// A scrape of /metrics reaches one worker, which gathers the metrics of all:
//
//   worker ──gather──▶ start ──collect──▶ every worker ──reply──▶ start ──gathered──▶ worker

import { ServiceError } from '../errors.js';

export interface Channel {
  send(message: object): void;
  listen(onMessage: (message: unknown) => void): void;
}

/** Messages from a worker. The number in a message identifies a question. */
export type ToRelay = { readonly gather: number } | { readonly reply: number; readonly value: unknown };
/** Messages from `start`. The keys of `values` are the workers' names. */
export type FromRelay =
  | { readonly collect: number }
  | { readonly gathered: number; readonly values: Readonly<Record<string, unknown>> };

/** Longer than `start` waits for a worker's reply. */
const TIMEOUT_MS = 1_500;

export class WorkerSiblings {
  readonly workers: number;
  readonly #channel: Channel;
  /** Callbacks by question. An entry expires after TIMEOUT_MS. */
  readonly #waiting = new Map<number, (values: Readonly<Record<string, unknown>>) => void>();
  #questions = 0;
  #read: () => Promise<unknown> = () => Promise.reject(new Error('nothing to gather'));

  constructor(channel: Channel, workers: number) {
    this.workers = workers;
    this.#channel = channel;
    channel.listen((received) => {
      if (typeof received !== 'object' || received === null) return;
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
   * @param read called when any worker gathers
   * @returns a function that gathers values by worker name, except of workers that don't answer; it throws ServiceError
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
