// Deadlines that don't beat a reply in the socket. Node runs timers before it reads sockets; setImmediate runs
// afterwards. ioredis's own timers don't wait for that, so they are off.

import { ServiceError } from '../errors.js';

/** Share of the time-out reserved for the reply. */
export const REPLY_SHARE = 0.2;

/** `unavailable` after the deadline. @param deadline `performance.now()` */
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
