// Erases every visitor of the shop in idempotent steps of a few milliseconds: queues the erasure of all rows, scans and
// deletes keys twice, since SCAN may miss data that moves, and queues the erasure again. Visitors who arrive in between
// may be erased, too.

import type { Redis } from 'ioredis';
import pLimit from 'p-limit';
import { EVERY_PROFILE } from '../../identity-rules.js';
import { ERASED_AT_S } from '../../profiles/erased-at.js';
import type { Pending } from '../../profiles/pending.js';
import { queueRows } from '../../profiles/queued-rows.js';
import { mastersOf } from '../../redis/client.js';
import { PROFILE_KINDS } from '../../redis/keys.js';
import type { Store } from '../../redis/store.js';
import { removeKeys, writeAtMaxmemory } from '../../redis/write.js';
import { together } from '../../together.js';

const PAGE = 200;
const MAX_CONCURRENT = 16;
/** Matches a visitor's keys; see src/redis/keys.ts. */
const OF_PROFILE = new RegExp(`^\\{([0-9a-z]+)\\}:[${PROFILE_KINDS.join('')}jx]:([^:]+)$`);
/** Tags of the core's other keys about visitors. */
const VISITOR_TAGS = ['k', 'email', 'share'];

/** Called before each page; throws to end the run. */
export type OnStep = () => Promise<void> | void;

export class ShopEraser {
  readonly #ofVisitors: RegExp;

  /** @param tags those of extras */
  constructor(
    private readonly store: Store,
    private readonly pending: Pending,
    tags: readonly string[],
  ) {
    this.#ofVisitors = new RegExp(`^\\{(?:${[...VISITOR_TAGS, ...tags].join('|')}):`);
  }

  async erase(onStep: OnStep = () => {}): Promise<string[]> {
    await queueRows(this.store, [EVERY_PROFILE]);
    const { shopErasedAt } = this.store.keys;
    await writeAtMaxmemory(this.store, shopErasedAt, ['SET', Date.now(), 'EX', ERASED_AT_S]);
    for (let i = 0; i < 2; i++) await this.#eraseFound(onStep);
    await this.pending.clear();
    await queueRows(this.store, [EVERY_PROFILE]);
    return [EVERY_PROFILE];
  }

  async #eraseFound(onStep: OnStep): Promise<void> {
    const { prefix } = this.store.keys;
    let failed: unknown;
    for (const node of await this.#nodes()) {
      let cursor = '0';
      do {
        await onStep();
        const from = cursor;
        const [after, found] = await this.store.call(() =>
          node.scan(from, 'MATCH', `${prefix}{*`, 'COUNT', PAGE),
        );
        cursor = after;
        await this.#erasePage(
          found.map((key) => key.slice(prefix.length)),
          prefix,
        ).catch((error) => {
          failed = error;
        });
      } while (cursor !== '0');
    }
    if (failed !== undefined) throw failed;
  }

  async #erasePage(spelled: readonly string[], prefix: string): Promise<void> {
    const { keys } = this.store;
    const profiles = new Set<string>();
    const steps: (readonly string[])[] = [];
    for (const key of spelled) {
      const [, bucket, rest] = OF_PROFILE.exec(key) ?? [];
      if (bucket !== undefined) profiles.add(`${bucket}.${rest}`);
      else if (this.#ofVisitors.test(key)) steps.push([prefix + key]);
    }
    for (const profileId of profiles) steps.push(keys.allOf(profileId));
    const limit = pLimit(MAX_CONCURRENT);
    await together(steps.map((step) => limit(() => removeKeys(this.store, step))));
  }

  async #nodes(): Promise<readonly Redis[]> {
    return this.store.call(async (client) => mastersOf(client));
  }
}
