// Where identities are: the one place that says so, and what follows from it.
//
// Each identity has a door in the bucket of its own profile (computed from its name). A visitor who was never linked is
// at home there: one HINCRBY counts a visit. One that was linked is away, in the room that the door's one field names.
// A room that was merged away has a tombstone that names the heir. There is nothing else to follow: no door leads to a
// door, and a profile is merged only while it is not its owner's room.
//
//   door ──at home──▶ the counts are here        door ──away──▶ room ──merged away──▶ heir
//
// What this process remembers of rooms is only a guess at the shortest way: on one server the script checks it against
// the door in the same step, on a cluster the door is asked first.

import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import { isCustomerName } from '../identity-rules.js';
import { type AtProfile, ERASED, MAX_HOPS } from '../redis/at-profile.js';
import { type Keys, keysOfRoom } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { VisitBatch } from '../visits/visit-batch.js';
import { freshLike, type ProfileIds } from './profile-id.js';

const LOOK = loadScript<string>('look');
const POINT = loadScript<number>('point');
const MOVE_OUT = loadScript<string | number>('move-out');
const REGISTER = loadScript<string | number>('register');
const FREE = loadScript<number>('free-door');
const CLAIM = loadScript('claim');

/** The owner of a room that a failover has forgotten, until a customer is linked. */
const UNOWNED = '?';

export interface Settled {
  readonly profileId: string;
  /** The count, where one was asked for; else 0. */
  readonly count: number;
  /** False only where an identity was looked for and is unknown; `profileId` is then the one that it would get. */
  readonly known: boolean;
}

/** What a door says. */
export interface Door {
  /** `.` at home, empty: unknown, else `<room> <move>`: what a change of it is compared with. */
  readonly field: string;
  /** Undefined where the identity is at home or unknown. */
  readonly room: string | undefined;
}

/** A door that leads to a room. */
export interface Away extends Door {
  readonly room: string;
}

const HOME: Door = { field: '.', room: undefined };

/** How many numbers there are for the first move of an identity that was at home or unknown: too many to draw one twice. */
const FIRST_MOVES = 1e12;
/** Doors that one process remembers, of identities and of pairs; about 200 bytes each. */
const REMEMBERED_FIELDS = 100_000;
/** Counts that one call moves; only after a failover there are any to move. */
const MOVED_AT_ONCE = 250;

export class Doors {
  readonly #store: Store;
  readonly #batch: VisitBatch;
  readonly #profileIds: ProfileIds;
  readonly #atProfile: AtProfile;
  /** name -> field of its door, as last seen; of those that are away. And of pairs, see `linked`. */
  readonly #fields = new LRUCache<string, string>({ max: REMEMBERED_FIELDS });

  constructor(store: Store, batch: VisitBatch, profileIds: ProfileIds, atProfile: AtProfile) {
    this.#store = store;
    this.#batch = batch;
    this.#profileIds = profileIds;
    this.#atProfile = atProfile;
  }

  /** Whether a script can check a door and do something at a room in one step: on one server. */
  get checksDoors(): boolean {
    return !this.#store.isCluster;
  }

  /** The profile that a name gets when it is first written, whether or not it was. */
  ownProfile(name: string): string {
    return this.#profileIds.of(name);
  }

  /** The door of a name that was away when this process last saw it. */
  remembered(name: string): Away | undefined {
    const field = this.#fields.size === 0 ? undefined : this.#fields.get(name);
    return field === undefined ? undefined : (doorOf(field) as Away);
  }

  remember(name: string, { field, room }: Door): void {
    if (room === undefined) this.#fields.delete(name);
    else this.#fields.set(name, field);
  }

  /**
   * The session's door when this process last saw that both lead to one room. While it says the same, they do: whatever
   * takes the room from this customer, a merge aside, unlinks the session first, and no door says the same twice.
   */
  linked(customer: string, session: string): Away | undefined {
    return this.remembered(pairOf(customer, session));
  }

  /** @param door of the session, as it was before its room was seen to be the customer's */
  rememberLink(customer: string, session: string, door: Door): void {
    this.remember(pairOf(customer, session), door);
  }

  /** What an identity's door says now. @param kind `resolve` makes an unknown one known */
  async where(name: string, kind: 'peek' | 'resolve' = 'peek'): Promise<Door> {
    const profileId = this.ownProfile(name);
    const asked = {
      kind,
      isRoom: false,
      name,
      own: profileId,
      field: '',
      profileId,
      handle: '',
      device: null,
    };
    const field = (await this.#batch.run(asked)) as string;
    const door = doorOf(field);
    if (door.room !== undefined) this.#fields.set(name, field);
    return door;
  }

  /** `where`, which Redis answers while it is at its `maxmemory`, too: a batch with visits fails then. */
  async look(name: string): Promise<Door> {
    const { keys } = this.#store;
    const own = this.ownProfile(name);
    return doorOf(await this.#store.run(LOOK, [keys.door(own), keys.profile(own)], []));
  }

  /** The profile that an identity has, or would get. */
  async find(name: string): Promise<Settled> {
    const { field, room } = await this.where(name);
    return { profileId: room ?? this.ownProfile(name), count: 0, known: field !== '' };
  }

  /**
   * Says where an identity belongs from now on. The room knows of it before, so that an erasure finds it, and
   * is looked at after: one that was erased in between has not. @param door what its door said; it is not at home
   * @returns false where that changed meanwhile, or there is no such room
   */
  async point(name: string, door: Door, room: string): Promise<boolean> {
    if (!(await this.#register(name, room))) return false;
    const field = fieldAfter(door, room);
    if (!(await this.#point(name, door, field))) return false;
    this.#fields.set(name, field);
    if (await this.#expects(room, name)) return true;
    const pointed = await this.where(name);
    if (pointed.room === room) await this.free(name, pointed);
    return false;
  }

  /** Lets a pending change of a door fail: what it compares with is another field now. */
  async stir(name: string, door: Door): Promise<boolean> {
    return this.#point(name, door, fieldAfter(door, door.room as string));
  }

  /**
   * Mends an identity's way to a room that is none. An erasure that is under way is finished, and takes the door away,
   * before it ends. So where the door still leads there, a failover has forgotten the room: it is one again.
   */
  async mend(name: string, room: string): Promise<void> {
    await this.#atProfile.follow(room, ERASED);
    const { room: at } = await this.look(name);
    if (at !== room || (await this.isThere(room))) return;
    await this.claim(room, isCustomerName(name) ? name : UNOWNED);
    await this.#register(name, room);
  }

  /** Makes a room a customer's, where it has no owner. @param owner UNOWNED where that is not known yet */
  async claim(room: string, owner: string): Promise<void> {
    await this.#store.change(CLAIM, keysOfRoom(this.#store.keys, room), [owner]);
  }

  /**
   * Unlinks an identity from an erased profile; where its default profile is another customer's by now, it gets a fresh one.
   * @returns false where it changed
   */
  async free(name: string, door: Door): Promise<boolean> {
    const { keys } = this.#store;
    const own = this.ownProfile(name);
    const fresh = freshLike(own);
    const touched = [keys.door(own), keys.profile(own), keys.profile(fresh), keys.merged(fresh)];
    this.#fields.delete(name);
    return (await this.#store.change(FREE, touched, [name, door.field, own, fresh])) === 1;
  }

  /** Whether a profile is a room, or was one and has an heir. */
  async isThere(room: string): Promise<boolean> {
    const key = this.#store.keys.profile(room);
    const [owner, heir] = await this.#store.call((client) => client.hmget(key, 'owner', 'heir'));
    return heir === null ? owner !== null : heir !== ERASED;
  }

  /** Whether a room knows of an identity, or has taken what it knows along to an heir. */
  async #expects(room: string, name: string): Promise<boolean> {
    const { keys } = this.#store;
    const [known, heir] = await Promise.all([
      this.#store.call((client) => client.hexists(keys.merged(room), name)),
      this.#store.call((client) => client.hget(keys.profile(room), 'heir')),
    ]);
    return known === 1 || ![null, ERASED].includes(heir);
  }

  /** @param what see lua/register.lua @returns false where there is no such room */
  async #register(what: string, room: string): Promise<boolean> {
    const touched = (keys: Keys, id: string) => [keys.profile(id), keys.merged(id)];
    let at = room;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const reply = await this.#store.change(REGISTER, touched(this.#store.keys, at), [what]);
      if (typeof reply !== 'string') return true;
      if (reply === ERASED) return false;
      at = await this.#atProfile.follow(at, reply);
    }
    throw new ServiceError('internal');
  }

  async #point(name: string, door: Door, field: string): Promise<boolean> {
    const { keys } = this.#store;
    const own = this.ownProfile(name);
    const args = [door.field, field];
    return (await this.#store.change(POINT, [keys.door(own), keys.profile(own)], args)) === 1;
  }

  /** An identity leaves home, for the room of its own profile, which is the owner's. @returns what its door says now */
  async moveOut(name: string, owner: string): Promise<Door> {
    const { keys } = this.#store;
    const own = this.ownProfile(name);
    const touched = [keys.door(own), keys.room(own), keys.profile(own), keys.merged(own), keys.items(own)];
    const field = fieldAfter(HOME, own);
    for (;;) {
      const reply = await this.#store.change(MOVE_OUT, touched, [name, field, owner, MOVED_AT_ONCE]);
      if (typeof reply === 'string') return doorOf(reply);
    }
  }
}

/** @param field of a door, as lua/visits.lua answers it */
export function doorOf(field: string): Door {
  const space = field.indexOf(' ');
  return { field, room: space < 0 ? undefined : field.slice(0, space) };
}

/** No name has a control character. */
function pairOf(customer: string, session: string): string {
  return `${customer}\n${session}`;
}

/** The field of a door that leads to a room from now on: none that it had before. */
function fieldAfter(door: Door, room: string): string {
  // A door that was taken away and made anew does not count from the same number.
  const before = door.room === undefined ? Math.random() * FIRST_MOVES : moveOf(door);
  return `${room} ${Math.floor(before) + 1}`;
}

function moveOf({ field }: Door): number {
  return Number(field.slice(field.indexOf(' ') + 1));
}

export function isKnown({ field }: Door): boolean {
  return field !== '';
}
