// Sends a script call until Redis answers it or its deadline is past. All that is ever sent again is sent again here:
// straight to the connection of the node that has the slot, past the resending of ioredis's Cluster (which would send
// a command for 1.6 s, on its own).
//
// A call that changes something carries a deadline in the clock of the node that it goes to, and its script refuses it
// afterwards. So nothing is applied that was answered 503, save one case: it was applied, its reply was lost with the
// connection, and the node can't be asked again before the deadline.

import { setTimeout as sleep } from 'node:timers/promises';
import { ServiceError } from '../errors.js';
import { before } from './deadline.js';
import { isPassing, isReadOnly, redirectionOf, toServiceError } from './failures.js';
import type { RedisHealth } from './health.js';
import { LUA } from './lua-codes.js';
import type { RedisNode } from './node.js';
import type { ScriptCall } from './script-call.js';
import { isNoScript } from './scripts.js';

const AGAIN_MS = 10;

/** The answer of an operation whose key is not at this node: nothing was done. */
export const NOT_HERE = '~';

export class Sender {
  readonly #health: RedisHealth;
  /** Replicas that must have a change before it is answered. */
  readonly #replicas: number;

  constructor(health: RedisHealth, replicas: number) {
    this.#health = health;
    this.#replicas = replicas;
  }

  /**
   * @param deadline of our monotonic clock
   * @param numbers the call's first arguments, made anew for each time that it is sent, from the deadline in the node's
   *   clock (milliseconds)
   * @param writes whether it changes anything
   * @returns the reply. While the slot of its first key migrates (ASK, TRYAGAIN), the call is repeated, and never run by the
   *   importing node: a script that touches other slots would take keys that have not arrived for new ones
   * @throws ServiceError `unavailable`; errors that Redis should not give are thrown as they are
   */
  async send(
    call: ScriptCall,
    deadline: number,
    numbers: (lastMoment: number) => readonly number[],
    writes: boolean,
  ): Promise<unknown> {
    const health = this.#health;
    const slot = health.slotOf(call.firstKey);
    let inFull = false;
    let remeasured = false;
    for (let again = false; ; again = true) {
      let node = health.nodeOf(slot);
      if (!node?.isUp || !health.isUp) node = await health.untilUp(slot, deadline);
      try {
        const first = numbers(node.lastMoment(deadline));
        const sent = call.send(node.redis, inFull, first);
        const reply = await before(deadline, this.#kept(node, sent, deadline, writes));
        if (reply !== LUA.EXPIRED) return reply;
        // Either we were slow, or a clock was set since it was measured: that can be told apart once.
        if (remeasured || performance.now() >= deadline) throw new ServiceError('unavailable');
        remeasured = true;
        await before(deadline, node.clock.measure(node.redis));
      } catch (thrown) {
        const error = thrown as Error;
        if (isNoScript(error)) {
          inFull = true;
          continue;
        }
        if (!isPassing(error) && !isReadOnly(error)) throw toServiceError(error);
        if (performance.now() + AGAIN_MS >= deadline) throw toServiceError(error);
        if (isReadOnly(error)) node.cut();
        const redirection = redirectionOf(error);
        if (redirection?.kind === 'MOVED') {
          health.moved(redirection.slot, redirection.address);
          if (!again) continue; // the first redirection is followed at once
        }
        await sleep(AGAIN_MS);
      }
    }
  }

  /** The reply, once so many replicas have what was done. */
  #kept(node: RedisNode, sent: Promise<unknown>, deadline: number, writes: boolean): Promise<unknown> {
    if (!writes || this.#replicas === 0) return sent;
    return Promise.all([sent, node.replicated(this.#replicas, deadline)]).then(([reply]) => reply);
  }
}
