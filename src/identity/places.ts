// Does something for an identity wherever that is by now: asks at the place that seems right, and asks on where the answer
// names another one. The script checks the door in the same step; but on a cluster, where a room may be at another node
// than the door, the door is asked before it.

import { ServiceError } from '../errors.js';
import { type AtProfile, ERASED, MAX_HOPS, type Place, placeOf } from '../redis/at-profile.js';
import { type Door, type Doors, doorOf } from './doors.js';

/**
 * Whose operation it is. Without a room: an identity's, wherever its door leads. With one: a linked customer's, at that
 * room, if the session (`name`) is there; with an empty name, because they were linked just now.
 */
export interface Subject {
  readonly name: string;
  readonly room?: string | undefined;
  /** What the session's door must say; see Door. */
  readonly field?: string;
}

/** Does something at a place, or answers where to ask instead: `@` and what the door says, or a room's heir. */
export type Ask<Answer> = (place: Place) => Promise<Answer | string>;
/** What is told of an answer. */
export type Tell<Answer, Told> = (place: Place, answer: Answer) => Told;

/** What a change answered, and the profile that has it. */
export interface Changed<Answer> {
  readonly profileId: string;
  readonly answer: Answer;
}

export class Places {
  readonly #doors: Doors;
  readonly #atProfile: AtProfile;

  constructor(doors: Doors, atProfile: AtProfile) {
    this.#doors = doors;
    this.#atProfile = atProfile;
  }

  /**
   * Does something at a subject's place, in one step with the check of its door: of one at home, and on one server.
   * @param ask does it at a place, or answers (a text) where to ask instead
   * @returns undefined as `enter` @throws what `ask` throws, and ServiceError `unavailable`
   */
  ask<Answer, Told>(subject: Subject, ask: Ask<Answer>, tell: Tell<Answer, Told>): Promise<Told | undefined> {
    const { name, room } = subject;
    if (room !== undefined) return this.askAt(subject, room, ask, tell);
    const place = this.#placeOf(name, this.#doors.checksDoors ? this.#doors.remembered(name) : undefined);
    // Nearly all are asked once, and need no function that can be suspended.
    return ask(place).then((answer) =>
      typeof answer === 'string' ? this.follow(name, place, answer, ask, tell) : tell(place, answer),
    );
  }

  async askAt<Answer, Told>(
    subject: Subject,
    room: string,
    ask: Ask<Answer>,
    tell: Tell<Answer, Told>,
  ): Promise<Told | undefined> {
    const asked = this.#doors.checksDoors ? subject : await this.askedSubject(subject);
    if (asked === undefined) return undefined;
    const place = this.#roomOf(room, asked.name, asked.field);
    const answer = await ask(place);
    if (typeof answer !== 'string') return tell(place, answer);
    return answer.startsWith('@') ? undefined : this.follow('', place, answer, ask, tell);
  }

  /** A subject whose door needs no check any more; undefined where its session is not at its room. */
  async askedSubject({ name, room, field }: Subject): Promise<Subject | undefined> {
    if (name === '') return { name, room };
    const door = await this.#doors.where(name);
    if (room !== undefined) return door.field === field ? { name: '', room } : undefined;
    return door.room === undefined ? { name } : { name: '', room: door.room };
  }

  /** Asks on, where an answer says to. @returns undefined where that is a door, and there is no name to ask for */
  async follow<Answer, Told>(
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
        let door = answer === ERASED ? await this.#doors.where(name) : doorOf(answer.slice(1));
        if (answer === ERASED && door.room === place.profileId && place.isRoom) {
          await this.#doors.mend(name, door.room);
          door = await this.#doors.where(name);
        }
        this.#doors.remember(name, door);
        place = this.#placeOf(name, door);
      }
      answer = await ask(place);
    }
    if (typeof answer === 'string') throw new ServiceError('internal');
    return tell(place, answer);
  }

  #placeOf(name: string, door: Door | undefined): Place {
    if (door?.room !== undefined)
      return this.#roomOf(door.room, this.#doors.checksDoors ? name : '', door.field);
    const profileId = this.#doors.ownProfile(name);
    return { profileId, isRoom: false, checked: name, own: profileId, field: '' };
  }

  #roomOf(room: string, checked: string, field = ''): Place {
    if (checked === '') return placeOf(room);
    return { profileId: room, isRoom: true, checked, own: this.#doors.ownProfile(checked), field };
  }
}

export function asChanged<Answer>({ profileId }: Place, answer: Answer): Changed<Answer> {
  return { profileId, answer };
}
