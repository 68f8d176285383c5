// Share links. A profile has one code, for good; a code leads to its profile, or to the one that this was merged into, as
// long as that has the code.
//
// Code and profile are in different slots. The code's key is written first, then the profile takes the code: so a code that
// was handed out always leads somewhere, and one that lost the race (or whose server crashed) was never seen by anyone.

import { randomBytes } from 'node:crypto';
import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import { isRedirect, MAX_HOPS, type Place } from '../redis/place.js';
import type { KeyedOperation } from '../redis/requests.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { type Changes, type Made, prepareEvent } from './changes.js';
import { HAS_CODE } from './wishlist-batch.js';

const PUT = loadScript('put');
/** 96 bits: links are secrets that can't be guessed. In base 36, since services rewrite links to lower case. */
const CODE_BYTES = 12;
const CODE_LENGTH = 19;
/** Codes were of mixed case before, and shorter. */
const CODE = /^(?:[A-Za-z0-9_-]{16}|[A-Za-z0-9]{19})$/;

export interface Share {
  readonly code: string;
  readonly shareLink: string;
}

/** A code as it was made: services change the case of links. */
export function normaliseCode(code: string): string {
  return code.length === CODE_LENGTH ? code.toLowerCase() : code;
}

export class Shares {
  readonly #store: Store;
  readonly #changes: Changes;
  readonly #shareUrl: string;
  readonly #placeOf: (profileId: string) => Promise<Place | undefined>;

  /**
   * @param shareUrl links, with `{code}`
   * @param placeOf where what a profile had is now
   */
  constructor(
    store: Store,
    changes: Changes,
    shareUrl: string,
    placeOf: (profileId: string) => Promise<Place | undefined>,
  ) {
    this.#store = store;
    this.#changes = changes;
    this.#shareUrl = shareUrl;
    this.#placeOf = placeOf;
  }

  /**
   * The profile's link, with a `share` event for each time that it is asked for: that is another share.
   * @returns a redirect, see Changes.make; @throws ServiceError `unavailable`, `overloaded`
   */
  async share(
    place: Place,
    identity: Identity,
    channel: string,
    operation?: KeyedOperation,
  ): Promise<Share | string> {
    const share = (code?: string): Promise<Made | string> => {
      if (code === undefined) return this.#changes.makeOnce(place, { kind: 'share' }, operation);
      const payload = { channel, shareCode: code, shareLink: this.#linkTo(code) };
      const event = prepareEvent({
        type: 'share',
        origin: 'share',
        profileId: place.profileId,
        identity,
        payload,
      });
      return this.#changes.makeOnce(place, { kind: 'share', code, isNew: code === drawn, event }, operation);
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
    return { code: code as string, shareLink: this.#linkTo(code as string) };
  }

  #linkTo(code: string): string {
    return this.#shareUrl.replaceAll('{code}', code);
  }

  /** Where the profile is that has a code: what it was made for, or was merged into. Undefined where none has it. */
  async find(given: string): Promise<Place | undefined> {
    if (!CODE.test(given)) return undefined;
    return (await this.#lookUp(normaliseCode(given), 0)).place;
  }

  /**
   * Removes a code that leads nowhere. One that was made in the last `graceMs` may be about to be given to its profile.
   * @returns whether it was removed @throws ServiceError `unavailable`
   */
  async forgetGone(code: string, graceMs: number): Promise<boolean> {
    return (await this.#lookUp(code, graceMs)).isGone;
  }

  /** Where the profile is that has a code. One that none has is removed if it is so old. */
  async #lookUp(
    code: string,
    leastMs: number,
  ): Promise<{ readonly place: Place | undefined; readonly isGone: boolean }> {
    const nowhere = { place: undefined, isGone: false };
    const [madeFor, madeAt] =
      (await this.#store.call((client) => client.get(this.#store.keys.share(code))))?.split(' ') ?? [];
    if (madeFor === undefined) return nowhere;
    let place = await this.#placeOf(madeFor);
    for (let hop = 0; hop < MAX_HOPS && place !== undefined; hop++) {
      if (await this.#has(place, code)) return { place, isGone: false };
      // A merge takes the code along.
      const now = await this.#placeOf(madeFor);
      if (now?.profileId === place.profileId) break;
      place = now;
    }
    // Its guest has ended, or came back and has another one.
    if (Date.now() - Number(madeAt) < leastMs) return nowhere;
    await this.#write(code, '');
    return { place: undefined, isGone: true };
  }

  /** Reads something of the profile that has a code. @returns undefined where none has it */
  async read<Answer>(
    code: string,
    ask: (place: Place) => Promise<Answer | string>,
  ): Promise<{ readonly profileId: string; readonly answer: Answer } | undefined> {
    for (let round = 0; round < MAX_HOPS; round++) {
      const place = await this.find(code);
      if (place === undefined) return undefined;
      const answer = await ask(place);
      // A guest who came back in between has no code.
      if (!isRedirect(answer) && (await this.#has(place, normaliseCode(code))))
        return { profileId: place.profileId, answer: answer as Answer };
    }
    throw new ServiceError('unavailable');
  }

  /** A code's key may outlive the visitor, whose profile another one has by then. */
  async #has({ profileId }: Place, code: string): Promise<boolean> {
    const { keys } = this.#store;
    const own = await this.#store.call((client) => client.hget(keys.profile(profileId), 'share'));
    if (own === code) return true;
    return (await this.#store.call((client) => client.hexists(keys.members(profileId), `#${code}`))) === 1;
  }

  /** @param profileId empty to remove the code */
  async #write(code: string, profileId: string): Promise<void> {
    const value = profileId === '' ? '' : `${profileId} ${Date.now()}`;
    await this.#store.change(PUT, [this.#store.keys.share(code)], [value]);
  }
}

function drawCode(): string {
  return BigInt(`0x${randomBytes(CODE_BYTES).toString('hex')}`)
    .toString(36)
    .padStart(CODE_LENGTH, '0');
}
