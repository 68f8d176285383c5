// Deadlines of our own. Node runs timers before it reads sockets, so after a busy turn a timer may fire although the
// reply is in the socket already: what was counted would be answered as failed. A deadline here only ends the wait
// after the sockets were read once more (setImmediate runs behind the poll phase). ioredis's own timers
// (`commandTimeout`, `socketTimeout`) do not, which is why they are off.

import { ServiceError } from '../errors.js';

/** Share of the time-out that is kept for the way back: what Redis would apply later may be answered as failed. */
export const REPLY_SHARE = 0.2;

/**
 * The call's result, or `unavailable` at the deadline.
 * @param deadline of our monotonic clock (`performance.now()`)
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
