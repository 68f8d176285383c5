// Erases visitors from Redis: doors, rooms, items, journals of merges, request records, share codes, and every
// profile that was merged in.
//
//   at home   (one slot)  ──erase-home──▶ gone, in one step
//   linked    root ──condemn──▶ `@`: nothing can be done there any more but this ──▶ the same for each profile that came
//             to it ──▶ things, page by page ──▶ its identities: rows that name one queued for erasure from streams and
//             ClickHouse, unlinked ──▶ rows of its profiles queued ──▶ each profile and its maker's door, in one step; the
//             root last
//
// What may ever lead to a room (a door, a merge) is registered there before it does (lua/register.lua), so the root knows
// all that has to go, and it goes last: it is the journal. Any request that finds `@` completes the erasure; the
// audit of merges finds what no request does. Each step refuses to touch a profile that is not `@` any more, since its id
// may be a new visitor's by then: an identity whose door was freed is unknown, and gets the same profile id again.
//
// What was under way meanwhile ends in a new visitor, or in nothing:
//   - A visit, item or event checks its door, or that its room has an owner, in the step that does it.
//   - A merge gives only to an heir that expects it; a room that was made anew does not.
//   - A door that was pointed too late is looked at again afterwards, and taken away.
//   - A batch that Redis has is one of these steps; sent again under its number it is answered, and not done again.
//   - A line for the stream was written before the erasure says "up to now" (lua/erasures.lua); see src/flush/erasures.ts.

import { ServiceError } from '../errors.js';
import { type AtProfile, ERASED, MAX_HOPS } from '../redis/at-profile.js';
import { bucketOf } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Doors } from './doors.js';
import type { Emails } from './emails.js';
import { ErasureSteps } from './erasure-steps.js';
import { isProfile } from './merge.js';
import type { NamedVisitor } from './named-visitor.js';

const CONDEMN = loadScript('condemn');
const THINGS = loadScript('erase-things');
const ROOM = loadScript('erase-room');
const HOME = loadScript('erase-home');

/** Each lost round means that another request changed the same identity. */
const ROUNDS = 16;
/** Keys that one call takes. */
const AT_ONCE = 100;

/** What is erased with a room. */
interface Scope {
  /** Condemned profiles: the root first, then those that came to it. */
  readonly profiles: Set<string>;
  /** Identities that a door may lead here. */
  readonly names: Set<string>;
  readonly codes: Set<string>;
  /** Of e-mail addresses that were given for one of the profiles. */
  readonly digests: Set<string>;
}

/** Told of all profiles of a visitor before the first of them goes. */
export type OnErasing = (profiles: readonly string[]) => Promise<void> | void;

export class Eraser {
  readonly #store: Store;
  readonly #doors: Doors;
  readonly #atProfile: AtProfile;
  readonly #emails: Emails;
  readonly #steps: ErasureSteps;
  readonly #onErased: (() => void) | undefined;

  /**
   * @param queuesRows see ErasureSteps
   * @param onErased told of each visitor
   */
  constructor(
    store: Store,
    doors: Doors,
    atProfile: AtProfile,
    emails: Emails,
    queuesRows = true,
    onErased?: () => void,
  ) {
    this.#store = store;
    this.#doors = doors;
    this.#atProfile = atProfile;
    this.#emails = emails;
    this.#steps = new ErasureSteps(store, queuesRows);
    this.#onErased = onErased;
  }

  /**
   * Erases the visitor that an identity is one of.
   * @param name of the identity, see identityName
   * @returns whether there was one
   * @throws ServiceError `unavailable`: a part of it may be erased, and the next try does the rest
   */
  async erase(name: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    return this.#eraseTold(() => this.#erase(name, onErasing));
  }

  async #erase(name: string, onErasing: OnErasing): Promise<boolean> {
    for (let round = 0; round < ROUNDS; round++) {
      const { room } = await this.#doors.look(name);
      if (room === undefined) {
        const wasKnown = await this.#eraseHome(name, onErasing);
        if (wasKnown !== undefined) return wasKnown;
      } else if (await this.#eraseRoom(room, onErasing, name)) return true;
      else await this.#doors.mend(name, room);
    }
    throw new ServiceError('unavailable');
  }

  /** Erases the visitor that a caller has named. @returns whether there was one @throws as `erase` */
  async eraseNamed({ names, digest }: NamedVisitor): Promise<boolean> {
    let erased = digest !== undefined && (await this.eraseByEmail(digest));
    for (const [i, name] of names.entries()) {
      if (i === 0 && digest === undefined) erased = await this.erase(name);
      // Its rows go. Linked meanwhile, it is another visitor's.
      else if ((await this.#doors.look(name)).room === undefined)
        erased = ((await this.#eraseHome(name, () => {})) ?? false) || erased;
    }
    return erased;
  }

  /**
   * Erases every visitor for whom an e-mail address was given.
   * @param digest see Emails @returns whether there was one @throws ServiceError `unavailable`
   */
  async eraseByEmail(digest: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    let erased = false;
    for (const { profileId, maker } of await this.#emails.find(digest)) {
      if (await this.#emails.isGivenFor(digest, profileId))
        erased =
          (await this.#eraseTold(() => this.#eraseAt(profileId, maker, onErasing, `@${digest}`))) || erased;
      await this.#emails.forget(digest, [profileId]);
    }
    return erased;
  }

  /**
   * Erases the visitor who has a profile now.
   * @param maker the identity whose own profile it is; empty where that is not known
   */
  async eraseProfile(profileId: string, maker: string, onErasing: OnErasing = () => {}): Promise<boolean> {
    return this.#eraseTold(() => this.#eraseAt(profileId, maker, onErasing));
  }

  async #eraseTold(erase: () => Promise<boolean>): Promise<boolean> {
    const wasKnown = await erase();
    if (wasKnown) this.#onErased?.();
    return wasKnown;
  }

  /** @param by see #eraseHome */
  async #eraseAt(profileId: string, maker: string, onErasing: OnErasing, by = ''): Promise<boolean> {
    for (let round = 0; round < ROUNDS; round++) {
      if (await this.#eraseRoom(profileId, onErasing)) return true;
      if (maker === '') return false;
      // Who went away since then has left its profile as a room, or a tombstone that leads to one; or left it long ago.
      if ((await this.#doors.look(maker)).room !== undefined) return this.#eraseRoom(profileId, onErasing);
      const wasKnown = await this.#eraseHome(maker, onErasing, by);
      if (wasKnown !== undefined) return wasKnown;
    }
    throw new ServiceError('unavailable');
  }

  /** Does what is left of an erasure, where a profile is part of one. @throws ServiceError `unavailable` */
  async finish(profileId: string): Promise<void> {
    const key = this.#store.keys.profile(profileId);
    const root = await this.#store.call((client) => client.hget(key, 'root'));
    if (root !== null) await this.#eraseRoom(root, () => {});
  }

  /**
   * @param by what must have come to it, else it is another visitor; empty where that does not matter
   * @returns undefined where it is not at home
   */
  async #eraseHome(name: string, onErasing: OnErasing, by = ''): Promise<boolean | undefined> {
    const { keys } = this.#store;
    const own = this.#doors.ownProfile(name);
    const digests: string[] = [];
    for await (const came of this.#steps.fieldsOf(keys.merged(own)))
      if (came.startsWith('@')) digests.push(came.slice(1));
    if (by !== '' && !digests.includes(by.slice(1)))
      return (await this.#doors.look(name)).room === undefined ? false : undefined;
    await onErasing([own]);
    await this.#steps.queueRows([own, name]);
    await this.#steps.eraseRequests(own);
    const touched = [
      keys.door(own),
      keys.profile(own),
      keys.merged(own),
      keys.room(own),
      keys.items(own),
      keys.requests(own),
      ...keys.journal(own),
    ];
    const reply = await this.#store.change(HOME, touched, [by]);
    if (typeof reply === 'string') return undefined;
    const [wasKnown, code] = reply as [number, string];
    if (code !== '') await this.#steps.eraseCode(code);
    for (const digest of digests) await this.#emails.forget(digest, [own]);
    // Events may have come since their rows were queued.
    await this.#steps.queueRows([own, name]);
    return wasKnown === 1;
  }

  /** @param name an identity that leads there @returns false where there is no such room (any more) */
  async #eraseRoom(room: string, onErasing: OnErasing, name?: string): Promise<boolean> {
    let root = room;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const reply = await this.#condemn(root, root, '', []);
      if (reply === '') return false;
      if (typeof reply === 'string') {
        root = await this.#atProfile.follow(root, reply);
        continue;
      }
      const [theirs, owner, code] = reply;
      if (theirs !== root) {
        root = theirs;
        continue;
      }
      const scope: Scope = {
        profiles: new Set([root]),
        names: new Set(name === undefined ? [] : [name]),
        codes: new Set(),
        digests: new Set(),
      };
      if (code !== '') scope.codes.add(code);
      if (await this.#widen(scope, root, owner)) {
        await onErasing([...scope.profiles]);
        await this.#eraseScope(scope, root);
      }
      return true;
    }
    throw new ServiceError('internal');
  }

  async #condemn(
    profileId: string,
    root: string,
    owner: string,
    others: readonly string[],
  ): Promise<string | [root: string, owner: string, code: string]> {
    const { keys } = this.#store;
    const touched = [keys.profile(profileId), keys.merges(bucketOf(profileId))];
    return (await this.#store.change(CONDEMN, touched, [profileId, root, owner, ...others])) as
      | string
      | [string, string, string];
  }

  /** Whether the erasure of a room is under way; else another process has finished it, and what is there is new. */
  async #isUnderWay(root: string): Promise<boolean> {
    const key = this.#store.keys.profile(root);
    return (await this.#store.call((client) => client.hget(key, 'heir'))) === ERASED;
  }

  /** Finds what came to the root, and what came to that, and condemns it. @returns whether it is still under way */
  async #widen({ profiles, names, codes, digests }: Scope, root: string, owner: string): Promise<boolean> {
    const { keys } = this.#store;
    const candidates = new Set<string>();
    const readFrom = new Set<string>();
    for (let isMore = true; isMore; ) {
      isMore = false;
      for (const profileId of profiles) {
        if (readFrom.has(profileId)) continue;
        readFrom.add(profileId);
        const [, , , , journal] = keys.journal(profileId);
        for (const key of [keys.merged(profileId), journal as string])
          for await (const came of this.#steps.fieldsOf(key)) {
            if (came.startsWith('#')) codes.add(came.slice(1));
            else if (came.startsWith('@')) digests.add(came.slice(1));
            else if (isProfile(came)) candidates.add(came);
            else names.add(came);
          }
      }
      // What was read is of this erasure only if it was not over by then.
      if (!(await this.#isUnderWay(root))) return false;
      for (const profileId of candidates) {
        if (profiles.has(profileId)) continue;
        const reply = await this.#condemn(profileId, root, owner, [...profiles]);
        if (typeof reply === 'string') continue;
        profiles.add(profileId);
        if (reply[2] !== '') codes.add(reply[2]);
        isMore = true;
      }
    }
    return true;
  }

  async #eraseScope({ profiles, names, codes, digests }: Scope, root: string): Promise<void> {
    const { keys } = this.#store;
    for (const profileId of profiles) {
      await this.#steps.eraseRequests(profileId);
      const received = [...profiles].map((from) => keys.received(profileId, from));
      const [, , , , cameBefore] = keys.journal(profileId);
      const things = [
        keys.room(profileId),
        keys.items(profileId),
        ...keys.journal(profileId).filter((key) => key !== cameBefore),
        ...received,
      ];
      for (let i = 0; i < things.length; i += AT_ONCE)
        await this.#store.change(THINGS, [keys.profile(profileId), ...things.slice(i, i + AT_ONCE)], []);
    }
    for (const code of codes) await this.#steps.eraseCode(code);
    for (const name of names) await this.#unlink(name, root, profiles);
    // As late as possible: a retry by the address finds what is left to do. Until the root goes, no new visitor can be here.
    if (!(await this.#isUnderWay(root))) return;
    // After the identities: where no profile is queued any more, no identity of the visitor is.
    await this.#steps.queueRows([...profiles]);
    for (const digest of digests) await this.#emails.forget(digest, [...profiles]);
    for (const profileId of [...profiles].filter((one) => one !== root))
      await this.#eraseProfile(profileId, profiles);
    await this.#eraseProfile(root, profiles);
  }

  async #eraseProfile(profileId: string, profiles: ReadonlySet<string>): Promise<void> {
    const { keys } = this.#store;
    const touched = [
      keys.profile(profileId),
      keys.merges(bucketOf(profileId)),
      keys.door(profileId),
      keys.merged(profileId),
      keys.requests(profileId),
      ...keys.journal(profileId),
    ];
    await this.#store.change(ROOM, touched, [profileId, ...profiles]);
  }

  /** Queues the rows that name an identity, if it leads to what is erased, and unlinks it. */
  async #unlink(name: string, root: string, profiles: ReadonlySet<string>): Promise<void> {
    for (let round = 0; round < ROUNDS; round++) {
      const door = await this.#doors.look(name);
      // Moves of a door never repeat: one that has changed since is not what is compared with.
      if (door.room === undefined || !(await this.#isUnderWay(root))) return;
      const leadsHere = profiles.has(door.room);
      if (leadsHere) await this.#steps.queueRows([name]);
      // Its door goes with its default profile.
      if (leadsHere && profiles.has(this.#doors.ownProfile(name))) return;
      // Where it leads elsewhere, a change that would lead it here may be on its way.
      const isDone = leadsHere ? await this.#doors.free(name, door) : await this.#doors.stir(name, door);
      if (isDone) return;
    }
    throw new ServiceError('unavailable');
  }
}
