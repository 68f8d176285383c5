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
import type { Addition, Member, Members } from './members.js';
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
  /** Called if the customer has too many sessions. The session is not linked. */
  readonly onFull?: (() => void) | undefined;
}

/** Checks that a request will succeed before it links ids. @returns the room that it needs @throws ServiceError */
export type Check = (customer: string) => Promise<Room>;

export class Login {
  constructor(private readonly parts: LoginParts) {}

  /**
   * @param isThorough also repeats a merge that a failover of the customer's node has lost
   * @returns true if this call has merged the session
   */
  async link(customerName: string, sessionName: string, check?: Check, isThorough = false): Promise<boolean> {
    const { locator, merger } = this.parts;
    const [customer, session] = [locator.profileOf(customerName), locator.profileOf(sessionName)];
    let room: Room | undefined;
    for (let round = 0; round < ROUNDS; round++) {
      const state = await locator.stateOf(sessionName);
      const step = decideLogin(customer, state);
      if (step === 'nothing') {
        if (!isThorough && locator.isKept(sessionName)) return false;
        if (await this.#keep(customer, session, sessionName)) return false;
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

  /** Extends the life of the session's link to this customer. @returns false if it has none now */
  async #keep(customer: string, session: string, sessionName: string): Promise<boolean> {
    const { locator, merger } = this.parts;
    const kept = await locator.stateOf(sessionName, 'extend');
    const isLinked = decideLogin(customer, kept) === 'nothing';
    // The link may be older than an erasure of the customer.
    if (isLinked && (await merger.settle(session, sessionName, kept as Link)) === 'linked') return true;
    locator.forget(sessionName);
    return false;
  }

  async #join(who: Addition, state: SessionState): Promise<Member | 'full' | 'again'> {
    const { store, locator, members } = this.parts;
    const member = await members.add(who);
    if (member === 'full') return 'full';
    const isRecent = store.now - linkedAt(member.linkId) < KEPT_MS;
    if (state !== 'guest' || (member.merged === '' && isRecent)) return member;
    // The merge has just begun, or a failover lost the session's link, or the link has expired. A merge needs a recent link id:
    // Resume gives up old ones.
    if ((await locator.stateOf(who.sessionName)) !== 'guest') return 'again';
    return members.add(who, member.text);
  }

  /** @returns false if the caller must read the session's state again */
  async #lead(session: string, sessionName: string, state: SessionState, link: LinkRef): Promise<boolean> {
    const { locator, merger } = this.parts;
    const isDone =
      typeof state === 'object'
        ? await this.#move(session, state, link)
        : await this.#setLink(session, '', link);
    if (!isDone) return false;
    locator.forget(sessionName);
    // An erasure of the customer in between has found the session, or is found now.
    return (await merger.settle(session, sessionName, link)) !== 'erased';
  }

  async #move(session: string, before: Link, link: LinkRef): Promise<boolean> {
    const { members, pending } = this.parts;
    const work = leaveWork(session, before);
    await pending.begin(session, work);
    // Before the link changes: if this process ends, the old link id opens nothing to servers that remember it.
    await members.leave(before, session);
    const isDone = await this.#setLink(session, linkText(before), link);
    // Again, because a request of the session in between has found the old link, and has settled it.
    if (isDone) await members.leave(before, session);
    await pending.end(session, work);
    return isDone;
  }

  async #setLink(session: string, before: string, link: LinkRef): Promise<boolean> {
    const { keys, guestsS } = this.parts.store;
    const touched = [keys.counts(session), keys.profile(session)];
    return (await this.parts.store.change(SET_LINK, touched, [before, targetText(link), guestsS])) === 1;
  }
}
