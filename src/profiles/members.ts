// A customer's sessions, see lua/profiles/addMember.lua. The other members of a profile are `share:<code>` and
// `email:<digest>`.

import { randomBytes } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { changeField } from '../redis/hash.js';
import { LUA } from '../redis/lua-codes.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { LinkRef } from './link.js';

const ADD_MEMBER = loadScript<string | number>('profiles/addMember');
/** Sessions of a customer. */
const MAX_MEMBERS = 10_000;
/** Begins the note of a session that has another customer's link now. */
const MOVED = 'moved:';
const NOTE = /^(moved:)?(\S+) (new|known) ([^\n]*)\n(.*)$/s;

export interface Member {
  /** As it is stored. */
  readonly text: string;
  readonly linkId: string;
  /** True if the customer was unknown. */
  readonly isNew: boolean;
  readonly sessionName: string;
  /** '' if nothing is merged; `merged` if everything is. */
  readonly merged: string;
  /** True if the session has another customer's link now. */
  readonly hasMoved: boolean;
}

export function parseMember(text: string): Member {
  const [, moved, linkId = '', state, sessionName = '', merged = ''] = NOTE.exec(text) ?? [];
  return { text, linkId, isNew: state === 'new', sessionName, merged, hasMoved: moved === MOVED };
}

/** False for share codes, digests of e-mail addresses, and what eraseProfile.lua adds. */
export function isSession(member: string): boolean {
  return member.includes('.') && !member.includes(':');
}

export interface Addition {
  readonly customer: string;
  readonly customerName: string;
  readonly session: string;
  readonly sessionName: string;
}

export class Members {
  constructor(private readonly store: Store) {}

  /** @param replaces the note of a link that the session no longer has @returns `full` at MAX_MEMBERS */
  async add(addition: Addition, replaces = ''): Promise<Member | 'full'> {
    const reply = await this.#add(addition, '', replaces);
    return reply === LUA.TOO_MANY ? 'full' : parseMember(reply as string);
  }

  /**
   * Notes a link that the session has: a failover may have lost the note.
   * @param replaces the note of another link @returns `erased` if the customer was erased after the session got the link
   */
  async restore(addition: Addition, linkId: string, replaces: string): Promise<Member | 'erased'> {
    const reply = await this.#add(addition, linkId, replaces);
    return reply === LUA.ERASED ? 'erased' : parseMember(reply as string);
  }

  async #add(addition: Addition, linkId: string, replaces: string): Promise<string | number> {
    const { customer, customerName, session, sessionName } = addition;
    const { keys } = this.store;
    const touched = [
      keys.profile(customer),
      keys.members(customer),
      keys.counts(customer),
      keys.erasedAt(customer),
    ];
    const random = randomBytes(6).toString('base64url');
    const args = [session, sessionName, customerName, random, linkId, replaces, MAX_MEMBERS];
    return this.store.change(ADD_MEMBER, touched, args);
  }

  async find(customer: string, session: string): Promise<Member | undefined> {
    const key = this.store.keys.members(customer);
    const text = await this.store.call((client) => client.hget(key, session));
    return text === null ? undefined : parseMember(text);
  }

  /** The session has another customer's link: its old one must open nothing here. */
  async leave({ customer, id }: LinkRef, session: string): Promise<void> {
    const key = this.store.keys.members(customer);
    for (;;) {
      const member = await this.find(customer, session);
      if (member?.linkId !== id || member.hasMoved) return;
      const after = member.merged === '' ? '' : `${MOVED}${member.text}`;
      const changed = await changeField(this.store, { key, field: session, before: member.text, after });
      if (changed === 1) return;
      if (changed !== 0) throw new ServiceError('unavailable');
    }
  }
}
