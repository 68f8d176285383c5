// Share links. A profile has one code, for good; a code leads to its profile, or to whoever that was merged into.
//
// Code and profile are in different slots. The code's key is written first, then the profile claims the code:
// so a code that was handed out always leads somewhere, and one that lost the race (or whose server crashed)
// was never seen by anyone.

import { randomBytes } from 'node:crypto';
import type { Identity } from '../identity/rules.js';
import type { Store } from '../redis/store.js';
import { type Outbox, prepareEvent } from './outbox.js';

/** 96 bits: links are secrets that can't be guessed. */
const CODE_BYTES = 12;
const CODE = /^[A-Za-z0-9_-]{16}$/;
const FIELD = 'share';

export interface Share {
  readonly code: string;
  readonly shareLink: string;
}

export class Shares {
  readonly #store: Store;
  readonly #outbox: Outbox;
  readonly #linkBase: string;

  /** @param linkBase what stands before the code */
  constructor(store: Store, outbox: Outbox, linkBase: string) {
    this.#store = store;
    this.#outbox = outbox;
    this.#linkBase = linkBase;
  }

  /**
   * The profile's link, with a `share` event for each time that it is asked for: somebody shares again.
   * @throws ServiceError `unavailable`, `overloaded`
   */
  async share(profileId: string, identity: Identity, channel: string): Promise<Share> {
    let drawn: string | undefined;
    const { change } = await this.#outbox.commit(profileId, async (at, stored) => {
      // The profile has another code, or an heir: nobody has seen this one.
      if (drawn !== undefined) await this.#forget(drawn);
      const believed = stored?.[0] ?? (await this.#codeOf(at));
      drawn = believed === '' ? await this.#draw(at) : undefined;
      const code = drawn ?? believed;
      const shareLink = this.#linkBase + code;
      const payload = { channel, shareCode: code, shareLink };
      return {
        deed: `share ${channel}`,
        hash: 'profile',
        fields: [{ field: FIELD, believed, wanted: code }],
        events: [prepareEvent({ type: 'share', origin: 'share', profileId: at, identity, payload })],
        holds: believed !== '',
        share: { code, shareLink },
      };
    });
    return change.share;
  }

  /** The profile that a code was made for; it may have been merged away. Undefined where nobody has the code. */
  async find(code: string): Promise<string | undefined> {
    if (!CODE.test(code)) return undefined;
    return (await this.#store.call((client) => client.get(this.#store.keys.share(code)))) ?? undefined;
  }

  async #codeOf(profileId: string): Promise<string> {
    const key = this.#store.keys.profile(profileId);
    return (await this.#store.call((client) => client.hget(key, FIELD))) ?? '';
  }

  async #draw(profileId: string): Promise<string> {
    const code = randomBytes(CODE_BYTES).toString('base64url');
    await this.#store.call((client) => client.set(this.#store.keys.share(code), profileId));
    return code;
  }

  async #forget(code: string): Promise<void> {
    await this.#store.call((client) => client.del(this.#store.keys.share(code)));
  }
}
