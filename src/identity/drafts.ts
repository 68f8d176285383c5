// Events that are to be recorded: each under the profile that its visitor has at that moment. Where one call does it, the
// draft is told without a promise.

import type { Recording } from '../events/recording.js';
import { eventTypeOf } from '../events/row.js';
import type { Place } from '../redis/at-profile.js';
import type { Batcher } from '../redis/batcher.js';
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
  readonly #batch: Batcher<Recording, string | undefined>;

  constructor(doors: Doors, places: Places, batch: Batcher<Recording, string | undefined>) {
    this.#doors = doors;
    this.#places = places;
    this.#batch = batch;
  }

  /**
   * Records an event; makes an unknown identity known.
   * @param encode the event's line under a profile
   * @returns the profile, or undefined as `enter` @throws ServiceError `overloaded` at the high-water mark, `unavailable`
   */
  record(subject: Subject, encode: (profileId: string) => string): Promise<string | undefined> {
    return this.#places.ask(subject, this.#recordsAt(encode), profileOf);
  }

  /** `record` of an event that is told, wherever its identity's door leads: without a promise where one call does it. */
  submit(name: string, draft: Draft): void {
    const own = this.#doors.ownProfile(name);
    const away = this.#doors.checksDoors ? this.#doors.remembered(name) : undefined;
    this.#batch.add(new RecordingAt(this, name, draft, own, away?.room ?? own, away));
  }

  /** Asks on for an event that is not to be recorded where that was tried. @param answer of that place */
  async recordElsewhere(
    { checked, draft, profileId, isRoom, own, field }: RecordingAt,
    answer: string,
  ): Promise<void> {
    try {
      const place = { profileId, isRoom, checked, own, field };
      const ask = this.#recordsAt((other) => draft.encode(other));
      draft.recorded((await this.#places.follow(checked, place, answer, ask, profileOf)) as string);
    } catch (error) {
      draft.failed(error as Error);
    }
  }

  #recordsAt(encode: (profileId: string) => string): Ask<undefined> {
    return ({ profileId, isRoom, checked, own, field }) => {
      const line = encode(profileId);
      const type = eventTypeOf(line);
      return this.#batch.run({ type, line, profileId, isRoom, checked, own, field }) as Promise<undefined>;
    };
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
    readonly checked: string,
    readonly draft: Draft,
    readonly own: string,
    readonly profileId: string,
    away: Away | undefined,
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
