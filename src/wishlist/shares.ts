// Share links. A profile keeps its code for ever, also after a merge. The code's key is in another slot, and is written
// before the profile's, so every published code leads to a profile. A code that loses a race is never published.

import { randomBytes } from 'node:crypto';
import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import { isRedirect, type Location, ownLocation } from '../redis/location.js';
import { LUA } from '../redis/lua-codes.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import { removeKeys, writeKey } from '../redis/write.js';
import { type Changes, type Made, prepareEvent } from './changes.js';

/** 96 bits can't be guessed. Base 36, because some services lower the case. */
const CODE_BYTES = 12;
const CODE_LENGTH = 19;
const ROUNDS = 16;
/** Older codes are shorter, and have both cases. */
const CODE = /^(?:[A-Za-z0-9_-]{16}|[A-Za-z0-9]{19})$/;

export interface Share {
  readonly code: string;
  readonly shareLink: string;
}

export function normaliseCode(code: string): string {
  return code.length === CODE_LENGTH ? code.toLowerCase() : code;
}

export class Shares {
  readonly tag = 'share';

  constructor(
    private readonly store: Store,
    private readonly changes: Changes,
    private readonly shareUrl: string,
    private readonly presentOf: (profileId: string) => Promise<string>,
  ) {}

  async share(
    location: Location,
    identity: Identity,
    channel: string,
    operation?: KeyedOperation,
  ): Promise<Share | string> {
    const share = (code?: string): Promise<Made | string> => {
      if (code === undefined) return this.changes.makeOnce(location, { kind: 'share' }, operation);
      const payload = { channel, shareCode: code, shareLink: this.#linkTo(code) };
      const event = prepareEvent({
        type: 'share',
        origin: 'share',
        profileId: location.profileId,
        identity,
        payload,
      });
      return this.changes.makeOnce(
        location,
        { kind: 'share', code, isNew: code === drawn, event },
        operation,
      );
    };
    let code: string | undefined;
    let drawn: string | undefined;
    let made = await share();
    // Repeats if a concurrent request assigns a code.
    while (typeof made !== 'string' && made.verdict === LUA.HAS_CODE) {
      code = made.value || drawn;
      if (code === undefined) {
        code = drawn = drawCode();
        await this.#write(drawn, location.profileId);
      }
      made = await share(code).catch(async (error: unknown) => {
        // The code was not published, so its key can be removed.
        if (drawn !== undefined && error instanceof ServiceError && error.code === 'overloaded')
          await this.#write(drawn, '').catch(() => {});
        throw error;
      });
    }
    if (typeof made !== 'string' && made.value !== '') code = made.value; // from an earlier try
    if (drawn !== undefined && (typeof made === 'string' || code !== drawn)) await this.#write(drawn, '');
    if (typeof made === 'string') return made;
    return { code: code as string, shareLink: this.#linkTo(code as string) };
  }

  #linkTo(code: string): string {
    return this.shareUrl.replaceAll('{code}', code);
  }

  /** @returns where the code's profile is after merges; undefined if no profile has the code */
  async find(given: string): Promise<Location | undefined> {
    if (!CODE.test(given)) return undefined;
    return (await this.#lookUp(normaliseCode(given), 0)).location;
  }

  /**
   * Removes a code that no profile has. A code younger than `graceMs` stays, because it may not be assigned yet.
   * @returns 1 if it was removed, else 0
   */
  async sweep(code: string, graceMs: number): Promise<number> {
    return (await this.#lookUp(code, graceMs)).isGone ? 1 : 0;
  }

  async #lookUp(
    code: string,
    leastMs: number,
  ): Promise<{ readonly location: Location | undefined; readonly isGone: boolean }> {
    const nowhere = { location: undefined, isGone: false };
    const [madeFor, madeAt] =
      (await this.store.call((client) => client.get(this.store.keys.share(code))))?.split(' ') ?? [];
    if (madeFor === undefined) return nowhere;
    for (let round = 0, profileId = ''; round < ROUNDS; round++) {
      const present = await this.presentOf(madeFor);
      if (present === profileId) break;
      // A merge may move the code.
      profileId = present;
      if (await this.#has(profileId, code)) return { location: ownLocation(profileId), isGone: false };
    }
    if (Date.now() - Number(madeAt) < leastMs) return nowhere;
    await removeKeys(this.store, [this.store.keys.share(code)]);
    return { location: undefined, isGone: true };
  }

  async read<Answer>(
    code: string,
    ask: (location: Location) => Promise<Answer | string>,
  ): Promise<{ readonly profileId: string; readonly answer: Answer } | undefined> {
    for (let round = 0; round < ROUNDS; round++) {
      const location = await this.find(code);
      if (location === undefined) return undefined;
      const answer = await ask(location);
      // The code is checked after the read: a guest who expired and came back doesn't have it.
      if (!isRedirect(answer) && (await this.#has(location.profileId, normaliseCode(code))))
        return { profileId: location.profileId, answer: answer as Answer };
    }
    throw new ServiceError('unavailable');
  }

  /** The key of a code is not enough: it may outlive its visitor, whose profile id may be reused. */
  async #has(profileId: string, code: string): Promise<boolean> {
    const { keys } = this.store;
    const own = await this.store.call((client) => client.hget(keys.profile(profileId), 'share'));
    if (own === code) return true;
    return (
      (await this.store.call((client) => client.hexists(keys.members(profileId), `share:${code}`))) === 1
    );
  }

  async #write(code: string, profileId: string): Promise<void> {
    await writeKey(this.store, this.store.keys.share(code), ['SET', `${profileId} ${Date.now()}`]);
  }
}

function drawCode(): string {
  return BigInt(`0x${randomBytes(CODE_BYTES).toString('hex')}`)
    .toString(36)
    .padStart(CODE_LENGTH, '0');
}
