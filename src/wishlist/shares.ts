// Share links. A profile has one code, for good; a code leads to its profile, or to the one that this was merged into, as
// long as that has the code.
//
// Code and profile are in different slots. The code's key is written first, then the profile takes the code: so a code that
// was handed out always leads somewhere, and one that lost the race (or whose server crashed) was never seen by anyone.

import { randomBytes } from 'node:crypto';
import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { AtProfile, Place } from '../redis/at-profile.js';
import type { Keys } from '../redis/keys.js';
import type { Operation } from '../redis/requests.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { type Changes, type Made, prepareEvent } from './changes.js';
import { HAS_CODE } from './wishlist-batch.js';

const PUT = loadScript('put');
const SHARE_OF = loadScript<string | number>('share-of');
/** 96 bits: links are secrets that can't be guessed. In base 36, since services rewrite links to lower case. */
const CODE_BYTES = 12;
const CODE_LENGTH = 19;
/** Codes were of mixed case before, and shorter. */
const CODE = /^(?:[A-Za-z0-9_-]{16}|[A-Za-z0-9]{19})$/;

export interface Share {
  readonly code: string;
  readonly shareLink: string;
}

/** A code as it was made, whatever became of its case on the way. */
export function normaliseCode(code: string): string {
  return code.length === CODE_LENGTH ? code.toLowerCase() : code;
}

export class Shares {
  readonly #store: Store;
  readonly #changes: Changes;
  readonly #linkBase: string;
  readonly #atProfile: AtProfile;

  /** @param linkBase what stands before the code */
  constructor(store: Store, changes: Changes, linkBase: string, atProfile: AtProfile) {
    this.#store = store;
    this.#changes = changes;
    this.#linkBase = linkBase;
    this.#atProfile = atProfile;
  }

  /**
   * The profile's link, with a `share` event for each time that it is asked for: that is another share.
   * @returns where to ask instead (a text), see Changes.make @throws ServiceError `unavailable`, `overloaded`
   */
  async share(
    place: Place,
    identity: Identity,
    channel: string,
    operation?: Operation,
  ): Promise<Share | string> {
    const share = (code?: string): Promise<Made | string> => {
      if (code === undefined) return this.#changes.makeOnce(place, { kind: 'share' }, operation);
      const payload = { channel, shareCode: code, shareLink: this.#linkBase + code };
      const event = prepareEvent({
        type: 'share',
        origin: 'share',
        profileId: place.profileId,
        identity,
        payload,
      });
      return this.#changes.makeOnce(place, { kind: 'share', code, event }, operation);
    };
    let code: string | undefined;
    let drawn: string | undefined;
    let made = await share();
    // Its code, or none yet; another request may give it one meanwhile.
    while (typeof made !== 'string' && made.verdict === HAS_CODE) {
      code = made.value || drawn;
      if (code === undefined) {
        code = drawn = drawCode();
        await this.#write(drawn, place.profileId);
      }
      made = await share(code).catch(async (error: unknown) => {
        // The stream is full, or too much waits: nothing was done, and no caller has seen this code.
        if (drawn !== undefined && error instanceof ServiceError && error.code === 'overloaded')
          await this.#write(drawn, '').catch(() => {});
        throw error;
      });
    }
    if (typeof made !== 'string' && made.value !== '') code = made.value; // of an earlier try
    // The profile has another code, or is elsewhere: no caller has seen this one.
    if (drawn !== undefined && (typeof made === 'string' || code !== drawn)) await this.#write(drawn, '');
    if (typeof made === 'string') return made;
    return { code: code as string, shareLink: this.#linkBase + code };
  }

  /** The profile that has a code: what it was made for, or was merged into. Undefined where none has it. */
  async find(given: string): Promise<string | undefined> {
    if (!CODE.test(given)) return undefined;
    const code = normaliseCode(given);
    const madeFor = await this.#store.call((client) => client.get(this.#store.keys.share(code)));
    if (madeFor === null) return undefined;
    const keysOf = (keys: Keys, id: string) => [keys.profile(id), keys.merged(id)];
    const { profileId, reply } = await this.#atProfile.run('run', madeFor, SHARE_OF, keysOf, [code]);
    if (reply === 1) return profileId;
    // Its guest has ended, or came back and has another one.
    await this.#write(code, '');
    return undefined;
  }

  async #write(code: string, profileId: string): Promise<void> {
    await this.#store.change(PUT, [this.#store.keys.share(code)], [profileId]);
  }
}

function drawCode(): string {
  return BigInt(`0x${randomBytes(CODE_BYTES).toString('hex')}`)
    .toString(36)
    .padStart(CODE_LENGTH, '0');
}
