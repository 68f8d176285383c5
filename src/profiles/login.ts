// Links a session to a customer after a trusted request has named both; link.ts has the table. A member is noted before its
// link is written, so that an erasure of the customer finds every link.

import { ServiceError } from '../errors.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import {
  decideLogin,
  type Link,
  type LinkRef,
  linkedAt,
  linkText,
  type SessionState,
  targetText,
} from './link.js';
import type { Locator } from './locator.js';
import type { Member, Members } from './members.js';
import { KEPT_MS, type Merger, type Room } from './merge.js';
import { leaveWork, type Pending } from './pending.js';

const SET_LINK = loadScript<number>('profiles/setLink');
/** Rounds until a request fails. Each failed round means that a concurrent request has changed the session. */
const ROUNDS = 16;

export interface LoginParts {
  readonly store: Store;
  readonly locator: Locator;
  readonly members: Members;
  readonly merger: Merger;
  readonly pending: Pending;
  /** The customer has as many sessions as it may: the session stays as it is. */
  readonly onFull?: (() => void) | undefined;
}

/** Checks that a request will succeed before it links ids. @returns the room that it needs @throws ServiceError */
export type Check = (customer: string) => Promise<Room>;

export class Login {
  constructor(private readonly parts: LoginParts) {}

  /** @returns true if this call has merged the session */
  async link(customerName: string, sessionName: string, check?: Check): Promise<boolean> {
    const { locator, merger } = this.parts;
    const [customer, session] = [locator.profileOf(customerName), locator.profileOf(sessionName)];
    let room: Room | undefined;
    for (let round = 0; round < ROUNDS; round++) {
      const state = await locator.stateOf(sessionName);
      const step = decideLogin(customer, state);
      if (step === 'nothing') {
        if (locator.isKept(sessionName)) return false;
        const kept = await locator.stateOf(sessionName, 'extend');
        const isLinked = decideLogin(customer, kept) === 'nothing';
        // The link may be older than an erasure of the customer.
        if (isLinked && (await merger.settle(session, sessionName, kept as Link)) === 'linked') return false;
        locator.forget(sessionName);
        continue;
      }
      room ??= await check?.(customer);
      if (step === 'finish') {
        const isMerged = await merger.finish(session, sessionName, state as Link);
        if (isMerged && (state as Link).customer === customer) return true;
        continue;
      }
      const member = await this.#join({ customer, customerName, session, sessionName }, state);
      if (member === 'again') continue;
      if (member === 'full') {
        this.parts.onFull?.();
        return false;
      }
      const link = { customer, id: member.linkId };
      if (step === 'merge') {
        if (await merger.begin(session, link, room)) return true;
      } else if (await this.#lead(session, sessionName, state, link)) return false;
    }
    throw new ServiceError('unavailable');
  }

  async #join(
    who: { readonly customer: string; readonly customerName: string; session: string; sessionName: string },
    state: SessionState,
  ): Promise<Member | 'full' | 'again'> {
    const { store, locator, members } = this.parts;
    const member = await members.add(who);
    if (member === 'full' || member === 'erased') return 'full';
    const isRecent = store.now - linkedAt({ customer: who.customer, id: member.linkId }) < KEPT_MS;
    if (state !== 'guest' || (member.merged === '' && isRecent)) return member;
    // Either the merge has begun just now, or a failover has lost the session's link, or the note is of a link that has ended.
    // A merge must not have a link id so old that Resume would give it up.
    if ((await locator.stateOf(who.sessionName)) !== 'guest') return 'again';
    const renewed = await members.add({ ...who, replaces: member.text });
    return renewed === 'erased' ? 'again' : renewed;
  }

  /** @returns false if the session has to be looked at again */
  async #lead(session: string, sessionName: string, state: SessionState, link: LinkRef): Promise<boolean> {
    const { store, locator, members, merger, pending } = this.parts;
    const { keys, guestsS } = store;
    const before = typeof state === 'object' ? state : undefined;
    const work = before && leaveWork(session, before);
    if (before !== undefined && work !== undefined) {
      await pending.begin(session, work);
      // Before the link changes: if this process ends, the old link id opens nothing to servers that remember it.
      await members.leave(before, session);
    }
    const touched = [keys.counts(session), keys.profile(session)];
    const args = [before === undefined ? '' : linkText(before), targetText(link), guestsS];
    const isDone = (await store.change(SET_LINK, touched, args)) === 1;
    if (before !== undefined && work !== undefined) {
      // Again, because a request of the session in between has found the old link, and has settled it.
      if (isDone) await members.leave(before, session);
      await pending.end(session, work);
    }
    if (!isDone) return false;
    locator.forget(sessionName);
    // An erasure of the customer in between has found the session, or is found now.
    return (await merger.settle(session, sessionName, link)) !== 'erased';
  }
}
