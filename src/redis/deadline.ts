// Deadlines that don't beat a reply in the socket. Node runs timers before it reads sockets, so after a long tick a timer may fire
// although the reply has arrived. Here the sockets are read once more first (setImmediate runs after the poll phase). ioredis's
// own timers (`commandTimeout`, `socketTimeout`) don't do that, so they are off.

import { ServiceError } from '../errors.js';

/** Share of the time-out reserved for the reply: Redis refuses calls that arrive later. */
export const REPLY_SHARE = 0.2;

/**
 * The call's result; `unavailable` after the deadline.
 * @param deadline `performance.now()`
 */
export function before<T>(deadline: number, call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const refuse = () => reject(new ServiceError('unavailable'));
    const timer = setTimeout(() => setImmediate(refuse), deadline - performance.now());
    call.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
