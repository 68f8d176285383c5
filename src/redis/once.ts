// Idempotency-Key: what was asked under a key is done once, and answered alike for a day.
//
//   (nothing) ──begin──▶ pending {operation's id, time, request} ──end──▶ done {answer}
//
// The record is in a slot of its own, found by the key alone, because a key sent again with another body gets
// the first answer. The deed is elsewhere, so it is done under the operation's id, which makes doing it again
// harmless: whoever finds a record that stays pending (its server crashed, or lost its connection) does what
// the record says, not what it was asked itself.

import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import type { Store } from './store.js';

/** Seconds for which an Idempotency-Key answers as the first time. */
export const REMEMBERED_S = 24 * 60 * 60;

/** How long a pending record is taken for a request that is still under way, and how often it is looked at. */
const PATIENCE_MS = 500;
const LOOK_MS = 10;

/** The first request under a key. */
export interface Operation<Request> {
  /** UUID v7; the deed is done under this id. */
  readonly id: string;
  /** When it was first asked, milliseconds since 1970. */
  readonly at: number;
  readonly request: Request;
}

interface Record<Request> extends Operation<Request> {
  readonly answer?: string;
}

export class Once {
  readonly #store: Store;
  readonly #rememberedS: number;

  /** @param rememberedS seconds for which a key answers as the first time */
  constructor(store: Store, rememberedS = REMEMBERED_S) {
    this.#store = store;
    this.#rememberedS = rememberedS;
  }

  /**
   * @param scope whose key it is and for what; keys of different scopes are different keys
   * @param act does what the operation asks; called again under the same id if that may be needed
   * @returns what `act` answered the first time
   */
  async run<Request>(
    scope: string,
    key: string,
    request: Request,
    act: (operation: Operation<Request>) => Promise<string>,
  ): Promise<string> {
    const at = Date.now();
    const mine: Record<Request> = { id: uuidv7({ msecs: at }), at, request };
    const digest = createHash('sha256').update(`${scope}\n${key}`).digest('base64url');
    const recordKey = this.#store.keys.once(digest);
    const text = JSON.stringify(mine);
    let found = await this.#store.call((client) =>
      client.set(recordKey, text, 'EX', this.#rememberedS, 'NX', 'GET'),
    );
    const patientUntil = performance.now() + PATIENCE_MS;
    while (found !== null) {
      const record = JSON.parse(found) as Record<Request>;
      if (record.answer !== undefined) return record.answer;
      if (performance.now() >= patientUntil) return this.#finish(recordKey, record, act);
      await sleep(LOOK_MS);
      found = await this.#store.call((client) => client.get(recordKey));
    }
    return this.#finish(recordKey, mine, act);
  }

  async #finish<Request>(
    recordKey: string,
    operation: Record<Request>,
    act: (operation: Operation<Request>) => Promise<string>,
  ): Promise<string> {
    const answer = await act(operation);
    const text = JSON.stringify({ ...operation, answer });
    await this.#store.call((client) => client.set(recordKey, text, 'KEEPTTL', 'XX'));
    return answer;
  }
}
