// Processes that share the streams, those that flush or those that deliver: each says four times in a while that it is
// there and how many it owns, and takes or gives up streams until all have as many. This decides who tries to claim; what
// keeps two owners apart is the epoch.

import type { RedisClient } from '../redis/client.js';
import { loadScript, runScript } from '../redis/scripts.js';

const TEAM = loadScript('flush-team');
/** In place of a number of streams: the process ends. */
const LEAVING = -1;

export class Team {
  readonly #redis: RedisClient;
  readonly #keys: readonly string[];
  readonly #owner: string;
  readonly #silentMs: number;

  /**
   * @param team key of the hash of these processes @param meta in the same slot
   * @param silentMs a process that has not been heard of for so long counts as gone
   */
  constructor(redis: RedisClient, team: string, meta: string, owner: string, silentMs: number) {
    this.#redis = redis;
    this.#keys = [team, meta];
    this.#owner = owner;
    this.#silentMs = silentMs;
  }

  /**
   * @param owned streams
   * @returns how many each of the others owns
   * @throws where Redis has lost the deployment: nothing is claimed there; Redis's errors
   */
  async announce(owned: number): Promise<number[]> {
    const list = await this.#run(owned);
    if (list.length === 0) throw new Error('Redis does not hold the deployment');
    const others: number[] = [];
    for (let i = 0; i < list.length; i += 2) if (list[i] !== this.#owner) others.push(list[i + 1] as number);
    return others;
  }

  /** @throws Redis's errors */
  async leave(): Promise<void> {
    await this.#run(LEAVING);
  }

  async #run(streams: number): Promise<(string | number)[]> {
    const args = [this.#owner, streams, this.#silentMs];
    return (await runScript(this.#redis, TEAM, this.#keys, args)) as (string | number)[];
  }
}

/**
 * How many streams a flusher takes, or gives up where it is below 0. Free ones go to those that have fewest. Nothing is
 * given up while one is free, so that what was given up is taken before more is.
 * @param own streams that it owns @param others how many each of the others owns @param streams that there are
 */
export function changeOfShare(own: number, others: readonly number[], streams: number): number {
  const fair = Math.ceil(streams / (others.length + 1));
  const fewest = Math.min(own, ...others);
  const owned = others.reduce((sum, one) => sum + one, own);
  if (owned < streams) return own === fewest ? Math.max(fair - own, 0) : 0;
  if (own > fair) return fair - own;
  return own > fewest + 1 ? -1 : 0;
}
