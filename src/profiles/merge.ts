// Merges a guest into a customer, who is usually in another slot; docs/architecture.md has the steps. Each step is one
// idempotent script. Whoever meets a merge that is under way completes it; what was applied is never applied again, because
// the member's note says how far it came.

import { eventIdOfName } from '../events/event-id.js';
import { encodeMerge } from '../events/row.js';
import { before } from '../redis/deadline.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { ItemIndex } from '../wishlist/item-index.js';
import { ERASED_AT_S } from './erased-at.js';
import { type Frozen, freeze, MERGED, type Page, pageAfter } from './frozen.js';
import { type Link, type LinkRef, linkedAt, targetText } from './link.js';
import type { Members } from './members.js';
import { leaveWork, mergeWork, type Pending } from './pending.js';

const APPLY = loadScript<[merged: string, products: number, items: number, state: string] | null>(
  'profiles/applyMerge',
);
const END = loadScript<number>('profiles/endMerge');
const UNLINK = loadScript<number>('profiles/unlinkSession');

/** How long the frozen data stay after the merge: a failover may lose what the customer got, ms. */
export const KEPT_MS = 10 * 60 * 1_000;
/** Time-outs that a request waits for its merge, which then continues without it. */
const PATIENCE = 2;

export type Append = (profileId: string, line: string) => Promise<unknown>;

/** Limits of a profile; 0 means none. */
export interface Limits {
  readonly products: number;
  readonly items: number;
  readonly itemBytes: number;
}

/** What the request that causes a merge will add to the customer: a product, or an item of this size. */
export interface Room {
  readonly product?: string;
  readonly item?: string;
  readonly itemBytes?: number;
}

export interface MergerParts {
  readonly store: Store;
  readonly members: Members;
  readonly pending: Pending;
  readonly append: Append;
  readonly limits: Limits;
  readonly itemIndex?: ItemIndex | undefined;
  readonly onLeftOut?: ((kind: 'product' | 'item', fields: number) => void) | undefined;
  /** Unlinks a session whose customer was erased. */
  readonly release: (session: string, link: LinkRef) => Promise<void>;
}

/** `elsewhere`: the session has no such link. `memberless`: the customer has no such session. */
type Outcome = 'merged' | 'elsewhere' | 'memberless';

/** `erased`: the link was older than an erasure of its customer. */
type Settled = 'linked' | 'elsewhere' | 'erased';

export class Merger {
  readonly #running = new Map<string, Promise<Outcome>>();

  constructor(private readonly parts: MergerParts) {}

  /** @param room is kept for the request that causes the merge @returns false if the session is no guest now */
  async begin(session: string, link: LinkRef, room?: Room): Promise<boolean> {
    await this.parts.pending.begin(session, mergeWork(session, link));
    const frozen = await freeze(this.parts.store, session, link, true);
    // Still listed: another process may begin this merge in a moment.
    if (frozen === undefined) return false;
    return (await this.#share(session, () => this.#apply(session, link, frozen, room))) === 'merged';
  }

  /** Completes a merge. @returns false if the session has to be looked at again */
  async finish(session: string, sessionName: string, link: Link): Promise<boolean> {
    const outcome = await this.#finish(session, link);
    if (outcome === 'memberless') await this.settle(session, sessionName, link);
    return outcome === 'merged';
  }

  /** For a link whose member may be missing: the session has moved, the customer was erased, or a failover lost the member. */
  async settle(session: string, sessionName: string, link: LinkRef): Promise<Settled> {
    const { members, pending } = this.parts;
    const present = await this.#linkOf(session);
    if (!isOf(present, link)) return 'elsewhere';
    const { customer, id: linkId } = link;
    const found = await members.find(customer, session);
    let member: Awaited<ReturnType<Members['add']>> | undefined = found;
    let work: string | undefined;
    if (found?.linkId !== linkId || found.hasMoved) {
      // If this process ends, the customer may know the session although it has moved.
      work = leaveWork(session, link);
      await pending.begin(session, work);
      // Another login may have noted its id since, although this link came first.
      const replaces = found?.text ?? '';
      member = await members.add({ customer, customerName: '', session, sessionName, linkId, replaces });
    }
    let settled: Settled = 'elsewhere';
    if (member === 'erased') {
      await this.parts.release(session, link);
      settled = 'erased';
    } else if (typeof member === 'object' && member.linkId === linkId) {
      if (!present.endsWith(' led') && member.merged !== MERGED) await this.#finish(session, link);
      if (isOf(await this.#linkOf(session), link)) settled = 'linked';
      else await members.leave(link, session);
    }
    if (work !== undefined) await pending.end(session, work);
    return settled;
  }

  /** Removes what the customer had or was getting from the session. */
  async unlink(session: string, link: LinkRef): Promise<void> {
    if (this.parts.itemIndex !== undefined) {
      const frozen = await freeze(this.parts.store, session, link, false);
      if (frozen !== undefined) await this.#forgetItems(session, frozen);
    }
    const touched = [...this.#keysOf(session), this.parts.store.keys.erasedAt(session)];
    await this.parts.store.change(UNLINK, touched, [targetText(link), Date.now(), ERASED_AT_S]);
    await this.parts.pending.forget(mergeWork(session, link));
  }

  /** Ends the time in which the merge can be repeated. */
  async clear(session: string, link: LinkRef): Promise<void> {
    await this.parts.store.change(END, this.#keysOf(session), [targetText(link), 0]);
    await this.parts.pending.forget(mergeWork(session, link));
  }

  #finish(session: string, link: LinkRef): Promise<Outcome> {
    return this.#share(session, async () => {
      const frozen = await freeze(this.parts.store, session, link, false);
      return frozen === undefined ? 'elsewhere' : this.#apply(session, link, frozen);
    });
  }

  async #linkOf(session: string): Promise<string> {
    const key = this.parts.store.keys.counts(session);
    return (await this.parts.store.call((client) => client.hget(key, ''))) ?? '';
  }

  #share(session: string, work: () => Promise<Outcome>): Promise<Outcome> {
    let running = this.#running.get(session);
    if (running === undefined) {
      running = work().finally(() => this.#running.delete(session));
      this.#running.set(session, running);
    }
    return before(performance.now() + PATIENCE * this.parts.store.timeoutMs, running);
  }

  async #apply(session: string, link: LinkRef, frozen: Frozen, room?: Room): Promise<Outcome> {
    const { store, append, itemIndex } = this.parts;
    const { customer, id } = link;
    let isNew = false;
    for (let position = ''; position !== MERGED; ) {
      const page = pageAfter(frozen, position);
      // An index entry must precede its item.
      await itemIndex?.addAll(namesOf(page.items), customer);
      const reply = await this.#applyPage(session, link, page, room);
      if (reply === null) return 'memberless';
      [position, isNew] = [reply.merged, reply.isNew];
    }
    const time = linkedAt(link);
    const row = eventIdOfName(time, `${id} ${session} ${customer}`);
    // A retry appends the row under the same id.
    await append(customer, encodeMerge(row, time, session, { into: customer, isNew }));
    await this.#forgetItems(session, frozen);
    // Longer than KEPT_MS: when that has passed, Resume looks at the customer once more.
    await store.change(END, this.#keysOf(session), [targetText(link), 2 * KEPT_MS]);
    return 'merged';
  }

  /** @returns how far the merge is now, perhaps by another process; null if the customer has no such session */
  async #applyPage(
    session: string,
    { customer, id }: LinkRef,
    page: Page,
    { product = '', item = '', itemBytes = 0 }: Room = {},
  ): Promise<{ readonly merged: string; readonly isNew: boolean } | null> {
    const { store, limits, onLeftOut } = this.parts;
    const { keys } = store;
    const { counts, items, facts, members } = page;
    const touched = [
      keys.counts(customer),
      keys.profile(customer),
      keys.items(customer),
      keys.members(customer),
    ];
    const reply = await store.change(APPLY, touched, [
      ...[session, id, page.before, page.after],
      ...[limits.products, limits.items, limits.itemBytes, product, item, itemBytes],
      ...[counts.length, items.length, facts.length],
      ...[...counts, ...items, ...facts].flat(),
      ...members,
    ]);
    if (reply === null) return null;
    const [merged, productsLeftOut, itemsLeftOut, state] = reply;
    if (productsLeftOut > 0) onLeftOut?.('product', productsLeftOut);
    if (itemsLeftOut > 0) onLeftOut?.('item', itemsLeftOut);
    return { merged, isNew: state === 'new' };
  }

  async #forgetItems(session: string, { entries }: Frozen): Promise<void> {
    const items = entries.filter(({ kind }) => kind === 'item').map(({ pair }) => pair);
    await this.parts.itemIndex?.remove(namesOf(items), session);
  }

  #keysOf(session: string): string[] {
    const { keys } = this.parts.store;
    return [
      keys.counts(session),
      keys.profile(session),
      keys.items(session),
      keys.members(session),
      keys.frozenCounts(session),
    ];
  }
}

function isOf(link: string, wanted: LinkRef): boolean {
  return link.startsWith(`${targetText(wanted)} `);
}

function namesOf(pairs: readonly (readonly [name: string, value: string])[]): string[] {
  return pairs.map(([name]) => name);
}
