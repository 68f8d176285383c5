// Events that are to be recorded: each under the profile that its visitor has at that moment. Where one call does it, the
// draft is told without a promise.

import type { Recorder } from '../events/recorder.js';
import type { Recording } from '../events/recording.js';
import type { Place } from '../redis/at-profile.js';
import type { Away, Doors } from './doors.js';
import type { Ask, Places, Subject } from './places.js';

/** An event that is to be recorded. It is told one of the two, once. */
export interface Draft {
  readonly type: string;
  /** Its line (from encodeEvent) under a profile; asked for again where that is another one. */
  encode(profileId: string): string;
  recorded(profileId: string): void;
  failed(error: Error): void;
}

export class Drafts {
  readonly #doors: Doors;
  readonly #places: Places;
  readonly #recorder: Recorder;

  constructor(doors: Doors, places: Places, recorder: Recorder) {
    this.#doors = doors;
    this.#places = places;
    this.#recorder = recorder;
  }

  /**
   * Records an event; makes an unknown identity known.
   * @param encode the event's line under a profile
   * @returns the profile, or undefined as `enter` @throws ServiceError `overloaded` at the high-water mark, `unavailable`
   */
  record(subject: Subject, encode: (profileId: string) => string): Promise<string | undefined> {
    return this.#places.change(subject, true, this.#recordsAt(encode), profileOf);
  }

  /** `record` of an event that is told, wherever its identity's door leads: without a promise where one call does it. */
  submit(name: string, draft: Draft): void {
    const own = this.#doors.ownProfile(name);
    if (!this.#recorder.checksDoors) {
      this.record({ name }, (profileId) => draft.encode(profileId)).then(
        (profileId) => draft.recorded(profileId as string),
        (error) => draft.failed(error),
      );
      return;
    }
    const away = this.#doors.remembered(name);
    const profileId = away?.room ?? own;
    const shard = this.#recorder.shardOf(profileId);
    this.#recorder.add(new RecordingAt(this, name, draft, own, profileId, away, shard));
  }

  /** Asks on for an event that is not to be recorded where that was tried. @param answer of that place */
  async recordElsewhere(
    { name, draft, profileId, isRoom, own, field }: RecordingAt,
    answer: string,
  ): Promise<void> {
    try {
      const place = { profileId, isRoom, checked: name, own, field };
      const ask = this.#recordsAt((other) => draft.encode(other));
      draft.recorded((await this.#places.follow(name, place, answer, ask, profileOf)) as string);
    } catch (error) {
      draft.failed(error as Error);
    }
  }

  #recordsAt(encode: (profileId: string) => string): Ask<undefined> {
    return (place) => this.#recorder.record(place, encode(place.profileId)) as Promise<string | undefined>;
  }
}

/** An event that is to be recorded at one place; with its answer it is told, or recorded elsewhere. */
class RecordingAt implements Recording {
  deadline = 0;
  readonly type: string;
  readonly line: string;
  readonly isRoom: boolean;
  readonly field: string;
  readonly #drafts: Drafts;

  /** @param own the identity's own profile @param away its door, where it is thought to lead to a room */
  constructor(
    drafts: Drafts,
    readonly name: string,
    readonly draft: Draft,
    readonly own: string,
    readonly profileId: string,
    away: Away | undefined,
    readonly shard: number,
  ) {
    this.#drafts = drafts;
    this.type = draft.type;
    this.line = draft.encode(profileId);
    this.isRoom = away !== undefined;
    this.field = away?.field ?? '';
  }

  done(answer: string | undefined): void {
    if (answer !== undefined) {
      void this.#drafts.recordElsewhere(this, answer);
      return;
    }
    this.draft.recorded(this.profileId);
  }

  failed(error: Error): void {
    this.draft.failed(error);
  }
}

function profileOf({ profileId }: Place): string {
  return profileId;
}
