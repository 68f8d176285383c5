// Where identities are: the one place that says so, and what follows from it.
//
// Each identity has a door in the bucket of its own profile (computed from its name). A visitor who was never linked is
// at home there: one HINCRBY counts a visit. One that was linked is away, in the room that its field in `ids` names.
// A room that was merged away has a tombstone that names the heir. There is nothing else to follow: no door leads to a
// door, and a profile is merged only while it is not its owner's room.
//
//   door ──at home──▶ the counts are here        door ──away──▶ room ──merged away──▶ heir
//
// A guest, which is a session at home, has a day when it was last seen, at its door: what is not seen for long goes
// (expirer.ts). So before anything else is done for it, it is met: once a day, see seen.ts.
//
// What this process remembers of rooms is only a guess at the shortest way: on one server the script checks it against
// the door in the same step, on a cluster the door is asked first.

import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.js';
import type { Recorder } from '../events/recorder.js';
import type { Recording } from '../events/recording.js';
import { isCustomerName } from '../identity-rules.js';
import { type AtProfile, ERASED, MAX_HOPS, type Place, placeOf } from '../redis/at-profile.js';
import { bucketOf, type Keys } from '../redis/keys.js';
import { LUA } from '../redis/lua-codes.js';
import { type Operation, REMEMBERED_S } from '../redis/requests.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Entry, VisitAnswer, VisitBatch, VisitKind } from '../visits/visit-batch.js';
import { type VisitLog, visitLine } from '../visits/visit-log.js';
import type { ProfileIds } from './profile-id.js';
import type { Seen } from './seen.js';

const VISIT_ONCE = loadScript('visit-once');
const POINT = loadScript('point');
const MOVE_OUT = loadScript('move-out');
const REGISTER = loadScript('register');
const FREE = loadScript('free-door');
const CLAIM = loadScript('claim');

/** The owner of a room that a failover has forgotten, until a customer is linked. */
export const NOBODY = '?';

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

/**
 * Whose operation it is. Without a room: an identity's, wherever its door leads. With one: a linked customer's, at that
 * room, if the session (`name`) is there; with an empty name, because they were linked just now.
 */
export interface Subject {
  readonly name: string;
  readonly room?: string | undefined;
}

/** Bounds how many new visitors come from one place. */
export interface Gate {
  /** Lets one more come. @returns what `giveBack` is told if it was no new one; undefined where they are too many */
  take(): number | undefined;
  giveBack(taken: number): void;
  /** What one who may not come is told. */
  refusal(): ServiceError;
}

/** Who asked for a count, and is told one of the two, once. */
export interface Asker {
  /** Where a visitor who is counted has to pass, if unknown. */
  readonly gate?: Gate | undefined;
  counted(profileId: string, count: number): void;
  failed(error: Error): void;
}

/** An event that is to be recorded. It is told one of the two, once. */
export interface Draft {
  /** Its line (from encodeEvent) under a profile; asked for again where that is another one. */
  encode(profileId: string): string;
  recorded(profileId: string): void;
  failed(error: Error): void;
}

/** Does something at a place, or answers where to ask instead: `@` and what the door says, or a room's heir. */
export type Ask<Answer> = (place: Place) => Promise<Answer | string>;
type Tell<Answer, Told> = (place: Place, answer: Answer) => Told;

/** What a change answered, and the profile that has it. */
export interface Changed<Answer> {
  readonly profileId: string;
  readonly answer: Answer;
}

/** How many numbers there are for the first move of an identity that was unknown. */
const FIRST_MOVES = 1e6;
/** Rooms that one process remembers; about 200 bytes each. */
const REMEMBERED_ROOMS = 100_000;
/** Counts that one call moves; only after a failover there are any to move. */
const MOVED_AT_ONCE = 250;

export class Doors {
  readonly #store: Store;
  readonly #batch: VisitBatch;
  readonly #profileIds: ProfileIds;
  readonly #atProfile: AtProfile;
  readonly #recorder: Recorder;
  readonly #maxProducts: number;
  readonly #log: VisitLog | undefined;
  readonly #onCounted: ((visits: number) => void) | undefined;
  readonly #seen: Seen | undefined;
  /** name -> room, as last seen */
  readonly #rooms = new LRUCache<string, string>({ max: REMEMBERED_ROOMS });

  constructor(
    store: Store,
    batch: VisitBatch,
    profileIds: ProfileIds,
    atProfile: AtProfile,
    recorder: Recorder,
    maxProducts: number,
    log: VisitLog | undefined,
    onCounted: ((visits: number) => void) | undefined,
    seen: Seen | undefined,
  ) {
    this.#store = store;
    this.#batch = batch;
    this.#profileIds = profileIds;
    this.#atProfile = atProfile;
    this.#recorder = recorder;
    this.#maxProducts = maxProducts;
    this.#log = log;
    this.#onCounted = onCounted;
    this.#seen = seen;
  }

  /** The profile that a name gets when it is first written, whether or not it was. */
  ownProfile(name: string): string {
    return this.#profileIds.of(name);
  }

  /** The room that this process last saw for a name. */
  remembered(name: string): string | undefined {
    return this.#rooms.size === 0 ? undefined : this.#rooms.get(name);
  }

  /** Counts, reads or resets for an identity, wherever its door leads. This is the hot path: it makes no promise. */
  count(kind: VisitKind, name: string, handle: string, device: string | null, asker: Asker): void {
    const own = this.#profileIds.of(name);
    const room = this.#checksDoors ? this.remembered(name) : undefined;
    if (kind === 'reset') this.note(name);
    const counting = new CountingAt(this, kind, name, handle, device, asker, own, room);
    if (this.#seen !== undefined && room === undefined && isVisit(kind) && !this.#seen.has(own))
      counting.meet(this.#seen);
    this.#batch.add(counting);
  }

  /**
   * Notes that an identity is seen, if this process has not done so today: before something is done for it, so that it
   * does not go meanwhile. @param gate where an unknown one, who will be known, has to pass
   * @throws ServiceError `unavailable`, and what the gate's refusal is
   */
  async meet(name: string, gate?: Gate): Promise<void> {
    if (!this.#isUnmet(name, gate)) return;
    const isKnown = await this.#touch(name);
    if (!isKnown && gate !== undefined && gate.take() === undefined) throw gate.refusal();
  }

  /** `meet` of one for whom nothing is changed: it is not waited for, and may fail. */
  note(name: string): void {
    if (this.#isUnmet(name)) this.#touch(name).catch(() => {});
  }

  #isUnmet(name: string, gate?: Gate): boolean {
    if (this.#seen === undefined || this.#seen.has(this.ownProfile(name))) return false;
    return gate !== undefined || (this.#seen.dayS !== '' && !isCustomerName(name));
  }

  /** @returns whether it is known */
  async #touch(name: string): Promise<boolean> {
    const profileId = this.ownProfile(name);
    const bucket = bucketOf(profileId);
    const seen = this.#seen as Seen;
    const dayS = daysOf(seen, name);
    const asked = {
      kind: 'touch',
      isRoom: false,
      name,
      bucket,
      profileId,
      handle: '',
      device: null,
    } as const;
    const answer = await this.#batch.run({ ...asked, dayS });
    if (answer === 1) seen.add(profileId);
    return answer !== 0;
  }

  /**
   * Counts, reads or resets.
   * @param device of a visitor who is counted
   * @returns undefined, and nothing done, only where the subject's session is not at its room
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_products`
   */
  enter(
    kind: VisitKind,
    { name, room }: Subject,
    handle: string,
    device: string | null = null,
  ): Promise<Settled | undefined> {
    if (room !== undefined)
      return this.#askAt(name, room, (place) => this.#submit(kind, handle, device, place), settle);
    return new Promise((resolve, failed) => {
      const counted = (profileId: string, count: number) => resolve({ profileId, count, known: true });
      this.count(kind, name, handle, device, { counted, failed });
    });
  }

  /** Asks on for a count that is not where it was looked for. @param answer of that place */
  async countElsewhere(
    { kind, handle, device, name, asker, profileId, isRoom }: CountingAt,
    answer: string,
  ): Promise<void> {
    try {
      const ask = (place: Place) => this.#submit(kind, handle, device, place);
      const place = { profileId, isRoom, checked: name, bucket: bucketOf(this.ownProfile(name)) };
      const settled = (await this.#follow(name, place, answer, ask, settle)) as Settled;
      asker.counted(settled.profileId, settled.count);
    } catch (error) {
      asker.failed(error as Error);
    }
  }

  /**
   * Counts one visit under an operation, once however often it is tried and wherever the counts move in between.
   * @returns as `enter` @throws ServiceError `unavailable`, `too_many_products`
   */
  async enterOnce(
    subject: Subject,
    handle: string,
    device: string | null,
    operation: Operation,
  ): Promise<Settled | undefined> {
    if (subject.room === undefined) await this.meet(subject.name);
    // The record and the count are at one place: the door is asked before, and not in the same step.
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const asked = await this.#askedSubject(subject);
      if (asked === undefined) return undefined;
      const done = await this.#ask(
        asked,
        (place) => this.#visitOnce(place, handle, device, operation),
        (place, answer) => (typeof answer === 'object' ? answer : settle(place, answer)),
      );
      if (done !== undefined) return done;
      // A retry has taken the operation from this room to another place, or the room is erased.
      const { name, room } = subject;
      if (name === '' && room !== undefined && !(await this.isThere(room))) return undefined;
    }
    throw new ServiceError('unavailable');
  }

  async #visitOnce(
    { profileId, isRoom }: Place,
    handle: string,
    device: string | null,
    operation: Operation,
  ): Promise<string | number | Settled> {
    const { keys } = this.#store;
    const [done] = await operation.settle(profileId);
    if (done !== undefined) return { profileId: done.place, count: Number(done.record), known: true };
    const counts = isRoom ? keys.room(profileId) : keys.door(profileId);
    const touched = [counts, keys.profile(profileId), keys.operation(profileId, operation.recordId())];
    const line = visitLine(profileId, handle, device);
    const logged = this.#log?.args(line, this.#store.addressOf(bucketOf(profileId))) ?? [];
    const args = [handle, REMEMBERED_S, this.#maxProducts, isRoom ? 1 : 0, ...logged];
    const reply = await this.#store.change(VISIT_ONCE, touched, args);
    if (typeof reply !== 'string' && reply !== LUA.TOO_MANY) this.#onCounted?.(1);
    if (Array.isArray(reply)) {
      const [count, missed] = reply as [number, number];
      this.#log?.notLogged(missed);
      return count;
    }
    if (reply === LUA.TOO_MANY) throw new ServiceError('too_many_products');
    if (reply === ERASED) await operation.moveOn(profileId);
    return reply as string | number;
  }

  /**
   * Records an event; makes an unknown identity known.
   * @param encode the event's line under a profile
   * @returns the profile, or undefined as `enter` @throws ServiceError `overloaded` at the high-water mark, `unavailable`
   */
  record(subject: Subject, encode: (profileId: string) => string): Promise<string | undefined> {
    return this.#change(subject, true, this.#recordsAt(encode), profileOf);
  }

  /** `record` of an event that is told, wherever its identity's door leads: without a promise where one call does it. */
  submit(name: string, draft: Draft): void {
    if (this.#isUnmet(name) || !this.#recorder.checksDoors) {
      this.record({ name }, (profileId) => draft.encode(profileId)).then(
        (profileId) => draft.recorded(profileId as string),
        (error) => draft.failed(error),
      );
      return;
    }
    const own = this.#profileIds.of(name);
    const room = this.remembered(name);
    const profileId = room ?? own;
    const shard = this.#recorder.shardOf(profileId);
    this.#recorder.add(new RecordingAt(this, name, draft, own, profileId, room !== undefined, shard));
  }

  /** Asks on for an event that is not to be recorded where that was tried. @param answer of that place */
  async recordElsewhere(
    { name, draft, profileId, isRoom, bucket }: RecordingAt,
    answer: string,
  ): Promise<void> {
    try {
      const place = { profileId, isRoom, checked: name, bucket };
      const ask = this.#recordsAt((other) => draft.encode(other));
      draft.recorded((await this.#follow(name, place, answer, ask, profileOf)) as string);
    } catch (error) {
      draft.failed(error as Error);
    }
  }

  #recordsAt(encode: (profileId: string) => string): Ask<undefined> {
    return (place) => this.#recorder.record(place, encode(place.profileId)) as Promise<string | undefined>;
  }

  /**
   * Changes something of a subject's profile: in one step with the check of its door, or, on a cluster, after it.
   * @param makesKnown whether an unknown identity is known afterwards
   * @param make makes the change at a place, or answers (a text) where to ask instead
   * @returns undefined as `enter` @throws what `make` throws, and ServiceError `unavailable`
   */
  change<Answer>(
    subject: Subject,
    makesKnown: boolean,
    make: Ask<Answer>,
  ): Promise<Changed<Answer> | undefined> {
    return this.#change(subject, makesKnown, make, ({ profileId }, answer) => ({ profileId, answer }));
  }

  /** What an identity's door says now. @param kind `resolve` makes an unknown one known */
  async where(name: string, kind: 'peek' | 'resolve' = 'peek'): Promise<Door> {
    const profileId = this.ownProfile(name);
    const bucket = bucketOf(profileId);
    const asked = { kind, isRoom: false, name, bucket, profileId, handle: '', device: null };
    const field = (await this.#batch.run(asked)) as string;
    const door = doorOf(field);
    if (door.room !== undefined) this.#rooms.set(name, door.room);
    return door;
  }

  /** The profile that an identity has, or would get. */
  async find(name: string, kind: 'peek' | 'resolve' = 'peek'): Promise<Settled> {
    const { field, room } = await this.where(name, kind);
    return { profileId: room ?? this.ownProfile(name), count: 0, known: field !== '' };
  }

  /**
   * Says where an identity belongs from now on. The room knows of it before, so that an erasure finds it, and
   * is looked at after: one that was erased in between has not. @param door what its door said; it is not at home
   * @returns false where that changed meanwhile, or there is no such room
   */
  async point(name: string, door: Door, room: string): Promise<boolean> {
    if (!(await this.#register(name, room)) || !(await this.#point(name, door, room))) return false;
    this.#rooms.set(name, room);
    if (await this.#expects(room, name)) return true;
    const pointed = await this.where(name);
    if (pointed.room === room) await this.free(name, pointed);
    return false;
  }

  /** Lets a pending change of a door fail: what it compares with is another field now. */
  async stir(name: string, door: Door): Promise<boolean> {
    return this.#point(name, door, door.room as string);
  }

  /**
   * Mends an identity's way to a room that is none. An erasure that is under way is finished, and takes the door away,
   * before it ends. So where the door still leads there, a failover has forgotten the room: it is one again.
   */
  async mend(name: string, room: string): Promise<void> {
    await this.#atProfile.follow(room, ERASED);
    const { room: at } = await this.where(name);
    if (at !== room || (await this.isThere(room))) return;
    await this.claim(room, isCustomerName(name) ? name : NOBODY);
    await this.#register(name, room);
  }

  /** Makes a room a customer's, where it has no owner. @param owner NOBODY where that is not known yet */
  async claim(room: string, owner: string): Promise<void> {
    await this.#store.change(CLAIM, [this.#store.keys.profile(room)], [owner]);
  }

  /** Takes an identity's door away; where its own profile is another's room by now, it leads there. @returns false where it changed */
  async free(name: string, door: Door): Promise<boolean> {
    const { keys } = this.#store;
    const own = this.ownProfile(name);
    const touched = [keys.ids(bucketOf(own)), keys.door(own), keys.profile(own)];
    this.#rooms.delete(name);
    return (await this.#store.change(FREE, touched, [name, door.field, own])) === 1;
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

  async #point(name: string, door: Door, room: string): Promise<boolean> {
    const { keys } = this.#store;
    const own = this.ownProfile(name);
    // A door that was taken away and made anew does not count from the same number.
    const before = door.room === undefined ? Math.random() * FIRST_MOVES : moveOf(door);
    const move = Math.floor(before) + 1;
    const args = [name, door.field, `${room} ${move}`];
    return (await this.#store.change(POINT, [keys.ids(bucketOf(own)), keys.door(own)], args)) === 1;
  }

  /** An identity leaves home, for the room of its own profile, which is the owner's. @returns what its door says now */
  async moveOut(name: string, owner: string): Promise<Door> {
    const { keys } = this.#store;
    const own = this.ownProfile(name);
    const touched = [
      keys.ids(bucketOf(own)),
      keys.door(own),
      keys.room(own),
      keys.profile(own),
      keys.merged(own),
    ];
    for (;;) {
      const reply = await this.#store.change(MOVE_OUT, touched, [name, own, owner, MOVED_AT_ONCE]);
      if (typeof reply === 'string') return doorOf(reply);
    }
  }

  /** Whether a script can check a door and do something at a room in one step: on one server. */
  get #checksDoors(): boolean {
    return !this.#store.isCluster;
  }

  #change<Answer, Told>(
    subject: Subject,
    makesKnown: boolean,
    make: Ask<Answer>,
    tell: Tell<Answer, Told>,
  ): Promise<Told | undefined> {
    const { name, room } = subject;
    const change = () =>
      this.#checksDoors || room !== undefined
        ? this.#ask(subject, make, tell)
        : this.#changeFound(name, makesKnown, make, tell);
    return room === undefined && this.#isUnmet(name) ? this.meet(name).then(change) : change();
  }

  /** On a cluster: at home a door is checked in the same step, a room only before it. */
  async #changeFound<Answer, Told>(
    name: string,
    makesKnown: boolean,
    make: Ask<Answer>,
    tell: Tell<Answer, Told>,
  ): Promise<Told | undefined> {
    const { room } = await this.where(name, makesKnown ? 'resolve' : 'peek');
    const place = this.#placeOf(name, room);
    const answer = await make(place);
    if (typeof answer !== 'string') return tell(place, answer);
    return this.#follow(name, place, answer, make, tell);
  }

  #submit(kind: VisitKind, handle: string, device: string | null, place: Place): Promise<VisitAnswer> {
    const { profileId, isRoom, checked: name, bucket } = place;
    return this.#batch.run({ kind, isRoom, name, bucket, profileId, handle, device });
  }

  #ask<Answer, Told>(
    { name, room }: Subject,
    ask: Ask<Answer>,
    tell: Tell<Answer, Told>,
  ): Promise<Told | undefined> {
    if (room !== undefined) return this.#askAt(name, room, ask, tell);
    const place = this.#placeOf(name, this.#checksDoors ? this.remembered(name) : undefined);
    // Nearly all are asked once, and need no function that can be suspended.
    return ask(place).then((answer) =>
      typeof answer === 'string' ? this.#follow(name, place, answer, ask, tell) : tell(place, answer),
    );
  }

  async #askAt<Answer, Told>(
    session: string,
    room: string,
    ask: Ask<Answer>,
    tell: Tell<Answer, Told>,
  ): Promise<Told | undefined> {
    const asked = this.#checksDoors
      ? { name: session, room }
      : await this.#askedSubject({ name: session, room });
    if (asked === undefined) return undefined;
    const place = this.#roomOf(room, asked.name);
    const answer = await ask(place);
    if (typeof answer !== 'string') return tell(place, answer);
    return answer.startsWith('@') ? undefined : this.#follow('', place, answer, ask, tell);
  }

  /** A subject whose door needs no check any more; undefined where its session is not at its room. */
  async #askedSubject({ name, room }: Subject): Promise<Subject | undefined> {
    if (name === '') return { name, room };
    const door = await this.where(name);
    if (room !== undefined) return door.room === room ? { name: '', room } : undefined;
    return door.room === undefined ? { name } : { name: '', room: door.room };
  }

  /** Asks on, where an answer says to. @returns undefined where that is a door, and there is no name to ask for */
  async #follow<Answer, Told>(
    name: string,
    first: Place,
    elsewhere: string,
    ask: Ask<Answer>,
    tell: Tell<Answer, Told>,
  ): Promise<Told | undefined> {
    let place = first;
    let answer: Answer | string = elsewhere;
    for (let hop = 1; hop < MAX_HOPS && typeof answer === 'string'; hop++) {
      if (!answer.startsWith('@')) {
        const profileId = await this.#atProfile.follow(place.profileId, answer);
        place = placeOf(profileId);
      } else {
        if (name === '') return undefined;
        let { room } = answer === ERASED ? await this.where(name) : doorOf(answer.slice(1));
        if (answer === ERASED && room === place.profileId && place.isRoom) {
          await this.mend(name, room);
          room = (await this.where(name)).room;
        }
        if (room === undefined) this.#rooms.delete(name);
        else this.#rooms.set(name, room);
        place = this.#placeOf(name, room);
      }
      answer = await ask(place);
    }
    if (typeof answer === 'string') throw new ServiceError('internal');
    return tell(place, answer);
  }

  #placeOf(name: string, room: string | undefined): Place {
    if (room !== undefined) return this.#roomOf(room, this.#checksDoors ? name : '');
    const profileId = this.ownProfile(name);
    return { profileId, isRoom: false, checked: name, bucket: bucketOf(profileId) };
  }

  #roomOf(room: string, checked: string): Place {
    if (checked === '') return placeOf(room);
    return { profileId: room, isRoom: true, checked, bucket: bucketOf(this.ownProfile(checked)) };
  }
}

/** A count that is asked for at one place; with its answer it is told, or asked for elsewhere. */
class CountingAt implements Entry {
  deadline = 0;
  dayS: string | undefined = undefined;
  refusesNew = false;
  #seen: Seen | undefined = undefined;
  /** By the asker's gate. */
  #taken: number | undefined = undefined;
  readonly profileId: string;
  readonly isRoom: boolean;
  readonly #doors: Doors;
  readonly #own: string;

  /** @param own the identity's own profile @param room where it is thought to be, if not at home */
  constructor(
    doors: Doors,
    readonly kind: VisitKind,
    readonly name: string,
    readonly handle: string,
    readonly device: string | null,
    readonly asker: Asker,
    own: string,
    room: string | undefined,
  ) {
    this.#doors = doors;
    this.profileId = room ?? own;
    this.isRoom = room !== undefined;
    this.#own = own;
  }

  get bucket(): string {
    return bucketOf(this.#own);
  }

  /** It is a visit at the door of one who is not known to be known. */
  meet(seen: Seen): void {
    this.#seen = seen;
    this.dayS = daysOf(seen, this.name);
    const { gate } = this.asker;
    if (gate === undefined) return;
    this.#taken = gate.take();
    this.refusesNew = this.#taken === undefined;
  }

  done(answer: VisitAnswer): void {
    if (this.#seen !== undefined) this.#met(answer, this.#seen);
    else if (typeof answer === 'string') void this.#doors.countElsewhere(this, answer);
    else this.asker.counted(this.profileId, answer ?? 0);
  }

  #met(answer: VisitAnswer, seen: Seen): void {
    if (answer !== LUA.NEWCOMER) this.#giveBack();
    if (typeof answer === 'string') void this.#doors.countElsewhere(this, answer);
    else if (answer === LUA.REFUSED) this.asker.failed((this.asker.gate as Gate).refusal());
    else {
      seen.add(this.#own);
      const count = answer === LUA.NEWCOMER ? 1 : (answer as number);
      this.asker.counted(this.profileId, this.kind === 'visit' ? 0 : count);
    }
  }

  #giveBack(): void {
    if (this.#taken !== undefined) this.asker.gate?.giveBack(this.#taken);
  }

  failed(error: Error): void {
    this.#giveBack();
    this.asker.failed(error);
  }
}

/** Customers have no last day. */
function daysOf(seen: Seen, name: string): string {
  return isCustomerName(name) ? '' : seen.dayS;
}

function isVisit(kind: VisitKind): boolean {
  return kind === 'visit' || kind === 'visitAndCount';
}

/** An event that is to be recorded at one place; with its answer it is told, or recorded elsewhere. */
class RecordingAt implements Recording {
  deadline = 0;
  readonly line: string;
  readonly #doors: Doors;
  readonly #own: string;

  /** @param own the identity's own profile */
  constructor(
    doors: Doors,
    readonly name: string,
    readonly draft: Draft,
    own: string,
    readonly profileId: string,
    readonly isRoom: boolean,
    readonly shard: number,
  ) {
    this.#doors = doors;
    this.#own = own;
    this.line = draft.encode(profileId);
  }

  get bucket(): string {
    return bucketOf(this.#own);
  }

  done(answer: string | undefined): void {
    if (answer === undefined) this.draft.recorded(this.profileId);
    else void this.#doors.recordElsewhere(this, answer);
  }

  failed(error: Error): void {
    this.draft.failed(error);
  }
}

function profileOf({ profileId }: Place): string {
  return profileId;
}

function doorOf(field: string): Door {
  const space = field.indexOf(' ');
  return { field, room: space < 0 ? undefined : field.slice(0, space) };
}

function moveOf({ field }: Door): number {
  return Number(field.slice(field.indexOf(' ') + 1));
}

function settle({ profileId }: Place, answer: number | undefined): Settled {
  return { profileId, count: answer ?? 0, known: true };
}

export function isKnown({ field }: Door): boolean {
  return field !== '';
}
