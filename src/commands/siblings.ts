// What one `serve` worker of `start` asks of all of them: a request meets any of the workers on their port, and some
// answers are about all. `start` passes the question on and the answers back; see start/relay.ts.
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

/**
 * Answers the siblings' questions with what `tell` gives.
 * @returns asks all workers, this one among them: what each told, by its name; one that does not answer is left out.
 *   It throws ServiceError `unavailable` where `start` does not answer.
 */
export function openSiblings<T>(
  channel: Channel,
  tell: () => Promise<T>,
): () => Promise<Readonly<Record<string, T>>> {
  const asked = new Map<number, (values: Readonly<Record<string, T>>) => void>();
  let questions = 0;
  const send = (message: ToRelay) => channel.send(message);
  channel.listen((received) => {
    if (typeof received !== 'object' || received === null) return; // whoever else is the parent
    const message = received as FromRelay;
    if ('tell' in message) {
      tell().then(
        (value) => send({ told: message.tell, value }),
        () => {}, // left out, like one that does not answer
      );
    } else if ('heard' in message) {
      asked.get(message.heard)?.(message.values as Readonly<Record<string, T>>);
    }
  });
  return () =>
    new Promise((resolve, reject) => {
      const question = ++questions;
      const end = () => {
        clearTimeout(timer);
        asked.delete(question);
      };
      const timer = setTimeout(() => {
        end();
        reject(new ServiceError('unavailable', 'The other workers could not be asked.'));
      }, TIMEOUT_MS);
      asked.set(question, (values) => {
        end();
        resolve(values);
      });
      send({ ask: question });
    });
}
