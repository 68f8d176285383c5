// Sends a script call until Redis answers or the deadline has passed; nothing else retries. Calls go to the slot's node
// directly, because ioredis's Cluster would retry for 1.6 s.
//
// A change carries a deadline by the node's clock: nothing is applied after its 503, unless the reply was lost and the
// node can't be asked again in time.

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

export class Sender {
  /** @param replicas REDIS_REPLICAS */
  constructor(
    private readonly health: RedisHealth,
    private readonly replicas: number,
  ) {}

  /**
   * While the first key's slot migrates (ASK, TRYAGAIN), repeats the call, but never at the importing node, where keys
   * that have not arrived would seem absent.
   * @param deadline monotonic @param numbers makes the first arguments
   */
  async send(
    call: ScriptCall,
    deadline: number,
    numbers: (lastMoment: number) => readonly number[],
    writes: boolean,
  ): Promise<unknown> {
    const health = this.health;
    const slot = health.slotOf(call.firstKey);
    let inFull = false;
    let remeasured = false;
    for (let again = false; ; again = true) {
      let node = health.nodeOf(slot);
      if (!node?.isUp || !health.isUp) node = await health.untilUp(slot, deadline);
      if (writes && node.tooFewReplicas) throw toServiceError(node.tooFewReplicas);
      try {
        const first = numbers(node.lastMoment(deadline));
        const sent = call.send(node.redis, inFull, first);
        const reply = await this.#kept(node, before(deadline, sent), deadline, writes);
        if (reply === LUA.NOT_HERE) throw new Error('TRYAGAIN another key of the script is at another node');
        if (reply !== LUA.EXPIRED) return reply;
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
          if (!again) continue; // follow the first redirection immediately
        }
        await sleep(AGAIN_MS);
      }
    }
  }

  async #kept(node: RedisNode, sent: Promise<unknown>, deadline: number, writes: boolean): Promise<unknown> {
    if (!writes || this.replicas === 0) return sent;
    const late = () => new Error('NOREPLICAS The replicas are late.');
    const kept = before(deadline, node.replicated(this.replicas, deadline), late);
    return (await Promise.all([sent, kept]))[0];
  }
}
