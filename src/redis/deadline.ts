// Deadlines that don't overtake a reply in the socket: Node runs timers before it reads sockets, and setImmediate
// afterwards. ioredis's timers don't wait, so they are off.

import { ServiceError } from '../errors.js';

/** Part of the time-out that is reserved for the reply. */
export const REPLY_SHARE = 0.2;

/** @param deadline by `performance.now()` @throws ServiceError `unavailable`, or `late`'s error, once it has passed */
export function before<T>(
  deadline: number,
  call: Promise<T>,
  late: () => Error = () => new ServiceError('unavailable'),
): Promise<T> {
  return new Promise((resolve, reject) => {
    const refuse = () => reject(late());
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
