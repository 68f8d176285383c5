// Guests become customers, customers have several devices, and devices change hands. Each group sends one
// request at a time, so that the profile of every visit and item is known. Logins are idempotent, and
// repeated until they get 200.

import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom, type Random } from '../../bench/demo/random.js';
import { ITEM } from '../harness/shop.js';
import type { Caller } from './caller.js';
import type { Entry } from './load.js';

export interface LoginsSpec {
  readonly caller: Caller;
  readonly seed: number;
  readonly groups: number;
  readonly restMs: number;
}

export type Identity = { readonly sessionId: string } | { readonly customerId: string };

export interface ExpectedProfile {
  /** undefined for a guest. */
  readonly owner: string | undefined;
  /** By handle. */
  readonly visits: Map<string, Entry>;
  /** By product. */
  readonly items: Map<string, Entry>;
  readonly identities: Identity[];
}

export const HANDLES = ['h0', 'h1', 'h2'];
/** Longer than an abandoned request can take to reach Redis. */
const LATE_MS = 1_500;
/** A visitor whose login gets no answer for so long after the end is locked out. */
const LOGIN_MS = 20_000;
const ACTIVE_SESSIONS = 4;
const ACTIVE_CUSTOMERS = 3;

export class LoginTraffic {
  /** Events of items, as in Load. */
  readonly events = new Map<string, Entry>();
  /** Stays empty: checkLogins compares visits by profile. */
  readonly visits = new Map<string, Entry>();
  readonly faults: readonly string[] = [];
  readonly logins = { first: 0, merged: 0, moved: 0, nothing: 0 };

  readonly #spec: LoginsSpec;
  readonly #profiles = new Set<ExpectedProfile>();
  #until = Number.POSITIVE_INFINITY;
  #done: Promise<unknown>;

  constructor(spec: LoginsSpec) {
    this.#spec = spec;
    this.#done = Promise.all(Array.from({ length: spec.groups }, (_, i) => this.#run(i)));
  }

  get profiles(): readonly ExpectedProfile[] {
    return [...this.#profiles];
  }

  async stop(): Promise<void> {
    this.#until = performance.now();
    await this.#done;
  }

  async #run(number: number): Promise<void> {
    const group = new SessionGroup(number, createRandom(this.#spec.seed * 1_000 + number), this.#profiles);
    while (performance.now() < this.#until) {
      await this.#step(group, group.random.next());
      await sleep(this.#spec.restMs);
    }
  }

  async #step(group: SessionGroup, dice: number): Promise<void> {
    if (dice < 0.5) return await this.#visit(group);
    if (dice < 0.7) return await this.#item(group);
    return await this.#login(group, dice < 0.8);
  }

  async #visit(group: SessionGroup): Promise<void> {
    const who = group.anybody();
    const entry = group.visitsOf(group.profileOf(who), group.random.pick(HANDLES));
    await this.#call('/product/visit', { identity: who, productHandle: entry.handle }, entry);
  }

  async #item(group: SessionGroup): Promise<void> {
    const who = group.anybody();
    const productId = group.nextProduct();
    const entry: Entry = { sent: 0, acknowledged: 0 };
    group.profileOf(who).items.set(productId, entry);
    this.events.set(productId, entry);
    await this.#call('/item/add', { ...ITEM, identity: who, productId }, entry);
  }

  async #login(group: SessionGroup, withVisit: boolean): Promise<void> {
    const { identity, did, profile } = group.login();
    this.logins[did]++;
    if (withVisit) {
      const entry = group.visitsOf(profile, group.random.pick(HANDLES));
      if (await this.#call('/product/visit', { identity, productHandle: entry.handle }, entry)) return;
    }
    // Also after the end: without an answer nobody knows the profile of the session.
    while ((await this.#spec.caller.call('POST', '/profile/merge', { identity }))?.status !== 200) {
      if (performance.now() > this.#until + LOGIN_MS) return;
      await sleep(100);
    }
  }

  async #call(path: string, body: object, entry: Entry): Promise<boolean> {
    entry.sent++;
    const answer = await this.#spec.caller.call('POST', path, body);
    if (answer?.status === 200) entry.acknowledged++;
    if (answer === undefined) await sleep(LATE_MS);
    return answer?.status === 200;
  }
}

/** The profile of each session and customer, by the rules of the contract's table of identities. */
class SessionGroup {
  readonly random: Random;
  readonly #name: string;
  readonly #all: Set<ExpectedProfile>;
  readonly #sessions = new Map<string, ExpectedProfile>();
  readonly #customers = new Map<string, ExpectedProfile>();
  #born = 0;
  #products = 0;

  constructor(number: number, random: Random, all: Set<ExpectedProfile>) {
    this.random = random;
    this.#name = `home${number}`;
    this.#all = all;
  }

  nextProduct(): string {
    return `${this.#name}-${this.#products++}`;
  }

  anybody(): Identity {
    return this.random.chance(0.7) ? { sessionId: this.#session() } : { customerId: this.#customer() };
  }

  profileOf(who: Identity): ExpectedProfile {
    const [of, id] =
      'sessionId' in who
        ? ([this.#sessions, who.sessionId] as const)
        : ([this.#customers, who.customerId] as const);
    const known = of.get(id);
    if (known !== undefined) return known;
    const made = this.#make('customerId' in who ? who.customerId : undefined);
    made.identities.push(who);
    of.set(id, made);
    return made;
  }

  visitsOf(profile: ExpectedProfile, handle: string): Entry & { readonly handle: string } {
    const found = profile.visits.get(handle) ?? { handle, sent: 0, acknowledged: 0 };
    profile.visits.set(handle, found);
    return found as Entry & { readonly handle: string };
  }

  login() {
    const sessionId = this.#session();
    const customerId = this.#customer();
    const identity = { sessionId, customerId };
    const ofSession = this.#sessions.get(sessionId);
    if (ofSession !== undefined && ofSession === this.#customers.get(customerId))
      return { identity, did: 'nothing', profile: ofSession } as const;
    const profile = this.profileOf({ customerId });
    if (ofSession !== undefined && ofSession.owner === undefined) {
      this.#merge(ofSession, profile);
      return { identity, did: 'merged', profile } as const;
    }
    if (ofSession !== undefined) ofSession.identities.splice(indexOf(ofSession.identities, sessionId), 1);
    profile.identities.push({ sessionId });
    this.#sessions.set(sessionId, profile);
    return { identity, did: ofSession === undefined ? 'first' : 'moved', profile } as const;
  }

  #merge(from: ExpectedProfile, into: ExpectedProfile): void {
    for (const [handle, { sent, acknowledged }] of from.visits) {
      const entry = this.visitsOf(into, handle);
      entry.sent += sent;
      entry.acknowledged += acknowledged;
    }
    for (const [productId, entry] of from.items) into.items.set(productId, entry);
    for (const who of from.identities) {
      into.identities.push(who);
      if ('sessionId' in who) this.#sessions.set(who.sessionId, into);
    }
    this.#all.delete(from);
  }

  #make(owner: string | undefined): ExpectedProfile {
    const made: ExpectedProfile = { owner, visits: new Map(), items: new Map(), identities: [] };
    this.#all.add(made);
    return made;
  }

  #session(): string {
    if (this.random.chance(0.1)) this.#born++;
    return `${this.#name}-s${this.#born + Math.floor(this.random.next() * ACTIVE_SESSIONS)}`;
  }

  #customer(): string {
    return `${this.#name}-c${(this.#born >> 3) + Math.floor(this.random.next() * ACTIVE_CUSTOMERS)}`;
  }
}

function indexOf(identities: readonly Identity[], sessionId: string): number {
  return identities.findIndex((who) => 'sessionId' in who && who.sessionId === sessionId);
}
