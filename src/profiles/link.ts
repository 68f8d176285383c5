// The link of a session to a customer, and what a login does with it:
//
//   session                              login of a customer
//   unknown, or retired                  lead: the session gets a link
//   guest                                merge: what the session has becomes the customer's
//   being merged, into any customer      finish: that merge is completed, and the login starts over
//   linked to this customer              nothing
//   linked to another                    move: the session gets a link to this customer; nothing is merged
//
// A retired session has no link, but was merged: its rows are a customer's, so it can't be a guest.

import { LUA } from '../redis/lua-codes.js';
import type { Store } from '../redis/store.js';

export type LinkState = 'led' | 'merging' | 'merged';

/** What fences, notes and pending work name. */
export interface LinkRef {
  /** The customer's profile id. */
  readonly customer: string;
  /** Milliseconds since 1970, a dot, random characters. */
  readonly id: string;
}

export interface Link extends LinkRef {
  /** `merged`: the link doesn't expire, because the session's own data were merged, perhaps into another customer. */
  readonly state: LinkState;
}

export type SessionState = 'unknown' | 'guest' | 'retired' | Link;

export type LoginStep = 'lead' | 'merge' | 'finish' | 'move' | 'nothing';

export function decideLogin(customer: string, session: SessionState): LoginStep {
  if (session === 'guest') return 'merge';
  if (session === 'unknown' || session === 'retired') return 'lead';
  if (session.state === 'merging') return 'finish';
  return session.customer === customer ? 'nothing' : 'move';
}

/** @param text as it is stored: `<customer's profile> <link id> <state>` */
export function parseLink(text: string): Link {
  const [customer, id, state] = text.split(' ') as [string, string, LinkState];
  return { customer, id, state };
}

export async function readLink(store: Store, session: string): Promise<Link | undefined> {
  const text = await store.call((client) => client.hget(store.keys.counts(session), ''));
  return text === null ? undefined : parseLink(text);
}

export function isSame(link: Link | undefined, wanted: LinkRef): link is Link {
  return link?.customer === wanted.customer && link.id === wanted.id;
}

/** The link without its state. */
export function targetText({ customer, id }: LinkRef): string {
  return `${customer} ${id}`;
}

export function linkText(link: Link): string {
  return `${targetText(link)} ${link.state}`;
}

/** @returns milliseconds since 1970 */
export function linkedAt(linkId: string): number {
  return Number.parseInt(linkId, 10);
}

/** `extend` and `resolve` extend the life of a link; `resolve` creates an unknown profile. */
export type LinkKind = 'resolve' | 'extend' | 'peek';

/** Asks lua/visits/countVisits.lua. @returns text for `sessionStateIn` */
export type AskLink = (profileId: string, kind: LinkKind) => Promise<string>;

/** @param answer of `peek` in lua/visits/countVisits.lua */
export function sessionStateIn(answer: string): SessionState {
  if (answer === '') return 'unknown';
  if (answer === LUA.GUEST) return 'guest';
  return answer === LUA.RETIRED ? 'retired' : parseLink(answer.slice(LUA.LINKED.length));
}
