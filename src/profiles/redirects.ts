// Follows links, after finishing their tasks, and removes dead ones.

import { ServiceError } from '../errors.js';
import { encodeAdoption } from '../events/row.js';
import { bucketOf } from '../redis/keys.js';
import { GONE, guestLocation, type Location, linkedLocation, MAX_HOPS } from '../redis/location.js';
import type { Store } from '../redis/store.js';
import type { LinkKind } from '../visits/visit-batch.js';
import { type Found, type Link, type Links, linkHome, linkIn, linkTo } from './links.js';
import type { Append, Merger, Target } from './merge.js';

export interface State extends Found {
  readonly owner: string | undefined;
}

export interface RedirectsParts {
  readonly store: Store;
  readonly links: Links;
  readonly merger: Merger;
  readonly append: Append;
  readonly finishErasure: (profileId: string, generation: string) => Promise<void>;
}

export class Redirects {
  constructor(private readonly parts: RedirectsParts) {}

  /** The returned link, if any, leads to an existing profile. */
  async stateOf(name: string, kind: LinkKind = 'peek'): Promise<State> {
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const found = await this.#finished(name, await this.parts.links.read(name, kind), kind);
      const { link, exists, home } = found;
      if (link !== undefined) {
        const owner = await this.parts.links.ownerOf(link);
        if (owner !== undefined) return { ...found, owner };
        await this.repair(name, link);
        continue;
      }
      const isLed = exists && home !== this.parts.links.defaultProfile(name);
      if (!isLed || (await this.parts.links.isAlive(linkHome(home)))) return { ...found, owner: undefined };
      await this.repair(name, linkHome(home));
    }
    throw new ServiceError('unavailable');
  }

  /** @param used the link given to the script */
  async after(name: string, redirect: string, used: Link | undefined): Promise<Found> {
    if (redirect === GONE && used !== undefined) await this.repair(name, used);
    const link = redirect === GONE ? undefined : linkIn(redirect.slice(1));
    if (link === undefined || link.generation === '')
      return this.#finished(name, await this.parts.links.read(name));
    this.parts.links.remember(name, link);
    return this.#finished(name, { link, exists: true, home: this.parts.links.defaultProfile(name) });
  }

  async #finished(name: string, found: Found, kind: LinkKind = 'peek'): Promise<Found> {
    let now = found;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      if (now.link === undefined || now.link.task === '') return now;
      await this.complete(name, now.link);
      now = await this.parts.links.read(name, kind);
    }
    throw new ServiceError('unavailable');
  }

  /** @returns true if the link is valid afterwards */
  async complete(name: string, link: Link): Promise<boolean> {
    if (link.task.startsWith('+')) return this.#adopt(name, link);
    const own = this.parts.links.defaultProfile(name);
    const target = await this.parts.merger.targetOf(own);
    if (target !== undefined && (await this.parts.merger.finish(own, target))) return true;
    await this.repair(name, link);
    return false;
  }

  async #adopt(customer: string, link: Link): Promise<boolean> {
    const { profileId, generation } = link;
    const session = link.task.slice(1);
    // A profile in another slot isn't the session's own: the session was linked to it earlier. The customer owns it
    // already, and lost only the link to it in a failover.
    const isInItsSlot = bucketOf(profileId) === bucketOf(this.parts.links.defaultProfile(session));
    const isOwned = isInItsSlot
      ? (await this.parts.links.own(session, profileId, customer, generation))?.field ===
        linkTo(profileId, generation).field
      : (await this.parts.links.ownerOf(link)) === customer;
    // The event precedes the last step, so that a retry appends it again.
    if (isOwned) await this.parts.append(profileId, encodeAdoption(profileId));
    return (
      (await this.parts.links.replace(customer, link, isOwned ? linkTo(profileId, generation) : undefined)) &&
      isOwned
    );
  }

  async repair(name: string, link: Link): Promise<void> {
    const { keys } = this.parts.store;
    const { profileId, generation } = link;
    if (await this.parts.links.isAlive(link)) return;
    const left = keys.leftovers(profileId, generation);
    if ((await this.parts.store.call((client) => client.exists(left))) === 1)
      return this.parts.finishErasure(profileId, generation);
    const moved = await this.parts.merger.targetOf(profileId);
    if (moved !== undefined && (moved.isFinished || (await this.parts.merger.finish(profileId, moved)))) {
      const to = moved.link;
      if (await this.parts.links.join(to, name)) {
        await this.parts.links.replace(name, link, to);
        return;
      }
    }
    if (generation === '' && moved !== undefined) return this.undo(profileId, moved);
    const own = this.parts.links.defaultProfile(name);
    const merged = await this.parts.merger.targetOf(own);
    if (merged?.link.profileId === profileId && merged.link.generation === generation)
      await this.undo(own, merged);
    else await this.parts.links.replace(name, link, undefined);
  }

  /** If the target was erased after receiving the merge, discards the source; else restores it. */
  async undo(profileId: string, target: Target): Promise<void> {
    const { link, isFinished } = target;
    const left = this.parts.store.keys.leftovers(link.profileId, link.generation);
    if ((await this.parts.store.call((client) => client.exists(left))) === 1) {
      await this.parts.finishErasure(link.profileId, link.generation);
      if ((await this.parts.merger.targetOf(profileId))?.mergeId !== target.mergeId) return;
    }
    if (isFinished) await this.parts.merger.clear(profileId, target);
    else await this.parts.merger.restore(profileId, target);
  }

  /** @returns undefined if the profile was erased */
  async locate(profileId: string): Promise<Location | undefined> {
    let [at, expected]: [string, string | undefined] = [profileId, undefined];
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const key = this.parts.store.keys.profile(at);
      const generation = await this.parts.store.call((client) => client.hget(key, 'generation'));
      if (generation !== null)
        return expected === undefined || expected === generation ? linkedLocation(at, generation) : undefined;
      const target = await this.parts.merger.targetOf(at);
      if (target === undefined) return expected === undefined ? guestLocation(at) : undefined;
      if (target.isFinished || (await this.parts.merger.finish(at, target)))
        [at, expected] = [target.link.profileId, target.link.generation];
      else await this.undo(at, target);
    }
    throw new ServiceError('internal');
  }
}
