// Merges a guest into a customer, usually in another slot; docs/architecture.md has the steps. Each step is one idempotent
// script. Any process may complete a merge. No page is applied twice, because the member's note keeps the position.

import { before } from '../redis/deadline.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { ERASED_AT_S } from './erased-at.js';
import { type Frozen, freeze, MERGED, mergedKeys, type Page, pageAfter } from './frozen.js';
import type { ItemIndex } from './item-index.js';
import { isSame, type Link, type LinkRef, readLink, targetText } from './link.js';
import type { Member, Members } from './members.js';
import { leaveWork, mergeWork, type Pending } from './pending.js';

const APPLY = loadScript<[merged: string, products: number, items: number, state: string] | null>(
  'profiles/applyMerge',
);
const END = loadScript<number>('profiles/endMerge');
const UNLINK = loadScript<number>('profiles/unlinkSession');

/** How long the frozen data stay after the merge, ms: a failover may lose the customer's copy. */
export const KEPT_MS = 10 * 60 * 1_000;
/** Time-outs that a request waits for its merge; the merge continues after that. */
const PATIENCE = 2;

/** Appends the merge's row; a retry appends it under the same id. */
export type AppendMerge = (session: string, link: LinkRef, isNew: boolean) => Promise<unknown>;

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
  readonly append: AppendMerge;
  readonly limits: Limits;
  readonly itemIndexes: readonly ItemIndex[];
  readonly onLeftOut?: ((kind: 'product' | 'item', fields: number) => void) | undefined;
  /** Unlinks a session whose customer was erased. */
  readonly release: (session: string, link: LinkRef) => Promise<void>;
}

/** `elsewhere`: the session has another link or none. `memberless`: the customer lacks the session. */
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

  /** Completes a merge. @returns false if the caller must read the session's state again */
  async finish(session: string, sessionName: string, link: Link): Promise<boolean> {
    const outcome = await this.#finish(session, link);
    if (outcome === 'memberless') await this.settle(session, sessionName, link);
    return outcome === 'merged';
  }

  /** For a link whose member may be missing: the session has moved, the customer was erased, or a failover lost the member. */
  async settle(session: string, sessionName: string, link: LinkRef): Promise<Settled> {
    const { store, members, pending } = this.parts;
    const present = await readLink(store, session);
    if (!isSame(present, link)) return 'elsewhere';
    const { customer, id: linkId } = link;
    let member: Member | 'erased' | undefined = await members.find(customer, session);
    let work: string | undefined;
    if (member?.linkId !== linkId || member.hasMoved) {
      // If this process ends, the customer may know the session although it has moved.
      work = leaveWork(session, link);
      await pending.begin(session, work);
      // Another login may have noted its id since, although this link came first.
      const replaces = member?.text ?? '';
      const addition = { customer, customerName: '', session, sessionName };
      member = await members.restore(addition, linkId, replaces);
    }
    let settled: Settled = 'elsewhere';
    if (member === 'erased') {
      await this.parts.release(session, link);
      settled = 'erased';
    } else if (member.linkId === linkId) {
      if (present.state !== 'led' && member.merged !== MERGED) await this.#finish(session, link);
      if (isSame(await readLink(store, session), link)) settled = 'linked';
      else await members.leave(link, session);
    }
    if (work !== undefined) await pending.end(session, work);
    return settled;
  }

  /** Removes what the customer had or was getting from the session. */
  async unlink(session: string, link: LinkRef): Promise<void> {
    const { store, pending, itemIndexes } = this.parts;
    if (itemIndexes.length > 0) {
      const frozen = await freeze(store, session, link, false);
      if (frozen !== undefined) await this.#forgetItems(session, frozen);
    }
    const { keys } = store;
    const touched = [...mergedKeys(keys, session), keys.erasedAt(session)];
    await store.change(UNLINK, touched, [targetText(link), Date.now(), ERASED_AT_S]);
    await pending.forget(mergeWork(session, link));
  }

  /** Removes the frozen data. Until then the merge can be repeated. */
  async clear(session: string, link: LinkRef): Promise<void> {
    const { store, pending } = this.parts;
    await store.change(END, mergedKeys(store.keys, session), [targetText(link), 0]);
    await pending.forget(mergeWork(session, link));
  }

  #finish(session: string, link: LinkRef): Promise<Outcome> {
    return this.#share(session, async () => {
      const frozen = await freeze(this.parts.store, session, link, false);
      return frozen === undefined ? 'elsewhere' : this.#apply(session, link, frozen);
    });
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
    const { store, append, itemIndexes } = this.parts;
    const { customer } = link;
    let isNew = false;
    for (let position = ''; position !== MERGED; ) {
      const page = pageAfter(frozen, position);
      // An index entry must precede its item.
      for (const index of itemIndexes) await index.addAll(namesOf(page.items), customer);
      const reply = await this.#applyPage(session, link, page, room);
      if (reply === null) return 'memberless';
      [position, isNew] = [reply.merged, reply.isNew];
    }
    await append(session, link, isNew);
    await this.#forgetItems(session, frozen);
    // Longer than KEPT_MS, because Resume then checks the customer once more.
    await store.change(END, mergedKeys(store.keys, session), [targetText(link), 2 * KEPT_MS]);
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
    for (const index of this.parts.itemIndexes) await index.remove(namesOf(items), session);
  }
}

function namesOf(pairs: readonly (readonly [name: string, value: string])[]): string[] {
  return pairs.map(([name]) => name);
}
