// A change of a profile and its event are not two hopes. One script makes the change and leaves the event's
// line in the profile's outbox; then the line is appended to the stream; then it leaves the outbox; then the
// caller is answered:
//
//   (asked) ──commit──▶ changed, event pending ──append──▶ event in the stream ──sent──▶ answered
//
// What fails or crashes between `commit` and `append` leaves the event pending, and a caller without an answer,
// who sends the request again. The script then finds that what is asked for holds already and that its event is
// pending, and gives out *that* line: appended twice it is still one event, because ClickHouse shows an event id
// once. The answer is as the first time would have been. A merge in between takes the outbox along.
//
// A pending event may also belong to the same request sent twice at once, here or on another server. Nobody
// can tell that from a retry, but for its age: a young one is waited for. When it has left the outbox, the
// second request finds the world as the first one left it (of two removals one removed).
//
// Who never comes back leaves an event behind, and a change that was never acknowledged. The next change of
// the profile, a minute later or more, brings that event to the stream.

import { setTimeout as sleep } from 'node:timers/promises';
import { LUA, ServiceError } from '../errors.js';
import { newEventId } from '../events/event-id.js';
import type { Recorder } from '../events/recorder.js';
import { encodeEvent, type NewEvent } from '../events/row.js';
import type { AtProfile } from '../redis/at-profile.js';
import { loadScript, type ScriptArg } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const COMMIT = loadScript('commit');
const SENT = loadScript('sent');
const RELEASE = loadScript('release');

/** The verdicts of lua/commit.lua that are no errors. */
const DONE = 1;
const CHANGED = 2;
const UNDER_WAY = 3;

/** How long a pending event is taken for a request that is still under way, and how often it is looked at. */
const UNDER_WAY_MS = 500;
const LOOK_MS = 20;
/** Then nobody will come back for it: any change of the profile brings it to the stream. */
const LEFT_BEHIND_MS = 60_000;
/** Pending events that a profile may have: bounds what a full stream can make Redis hold. */
const MAX_PENDING = 64;
/** When what is in the stream is taken out of the outbox again, where the first try failed. */
const FORGET_DELAYS_MS = [20, 100, 500, 2_000, 10_000];
/** Contention on one field is over long before. */
const GIVE_UP_MS = 2_000;

export interface PendingEvent {
  readonly id: string;
  readonly line: string;
}

/** Encodes an event before it happens. @param at when the service took it, milliseconds since 1970 */
export function prepareEvent(event: Omit<NewEvent, 'id' | 'at'>, at = Date.now()): PendingEvent {
  const id = newEventId(at);
  return { id, line: encodeEvent({ ...event, id, at }) };
}

/** Believed of a field that is written whatever it is; a value that is there keeps its first line. */
export const ANYTHING = '*';

/** One field: what it is believed to be, and what it shall be. Empty stands for absent, ANYTHING for whatever it is. */
export interface FieldChange {
  readonly field: string;
  readonly believed: string;
  readonly wanted: string;
}

export interface Change {
  /** In words, without line breaks; asked for again it has the same words. */
  readonly deed: string;
  readonly hash: 'items' | 'profile';
  readonly fields: readonly FieldChange[];
  readonly events: readonly PendingEvent[];
  /** Whether, as far as is known, what is asked for holds already. */
  readonly holds: boolean;
  /** Where given, the change is made once under this id, whatever holds, for so many seconds. */
  readonly once?: { readonly operationId: string; readonly seconds: number };
}

/** The change of a profile, with what its fields really are where it was planned wrong before. */
export type Plan<C extends Change> = (profileId: string, stored?: readonly string[]) => C | Promise<C>;

export interface Committed<C extends Change> {
  readonly profileId: string;
  /** The change as it was planned last. */
  readonly change: C;
  /** What its fields have now. */
  readonly stored: readonly string[];
  /** Whether this request, or an earlier try of it, did anything; false where there was nothing to do. */
  readonly happened: boolean;
}

export class Outbox {
  readonly #store: Store;
  readonly #atProfile: AtProfile;
  readonly #recorder: Recorder;
  readonly #underWayMs: number;

  constructor(store: Store, atProfile: AtProfile, recorder: Recorder, underWayMs = UNDER_WAY_MS) {
    this.#store = store;
    this.#atProfile = atProfile;
    this.#recorder = recorder;
    this.#underWayMs = underWayMs;
  }

  /**
   * Makes a change; resolves when it is made and its events are in the stream.
   * @param plan the change of a profile; planned anew, with what the fields really are, where it was wrong
   * @throws ServiceError `unavailable`, `overloaded`: the request may be sent again
   */
  async commit<C extends Change>(profileId: string, plan: Plan<C>): Promise<Committed<C>> {
    const began = performance.now();
    let at = profileId;
    let change = await plan(at);
    while (performance.now() - began < GIVE_UP_MS) {
      // Under an operation's id, whoever acts was told to.
      const isPatient = change.once === undefined && performance.now() - began < this.#underWayMs;
      const reply = await this.#try(at, change, isPatient ? this.#underWayMs : 0);
      if (typeof reply === 'string') {
        at = await this.#atProfile.follow(at, reply);
        change = await plan(at);
        continue;
      }
      const [verdict, first = [], mine = [], others = []] = reply;
      switch (verdict) {
        case DONE:
          await this.#send(at, [...others, ...mine]);
          return { profileId: at, change, stored: first, happened: mine.length > 0 };
        case CHANGED:
          change = await plan(at, first);
          break;
        case UNDER_WAY:
          await sleep(LOOK_MS);
          break;
        case LUA.FULL:
          await this.#send(at, first);
      }
    }
    throw new ServiceError('unavailable');
  }

  async #try(at: string, change: Change, underWayMs: number): Promise<string | Reply> {
    const { keys } = this.#store;
    const { deed, hash, fields, events, holds, once } = change;
    const touched = [keys.visits(at), keys.outbox(at), keys[hash](at)];
    if (once !== undefined) touched.push(keys.operation(at, once.operationId));
    const args: ScriptArg[] = [deed, holds ? 1 : 0, underWayMs, LEFT_BEHIND_MS, MAX_PENDING];
    args.push(once?.seconds ?? 0, fields.length);
    for (const { field, believed, wanted } of fields) args.push(field, believed, wanted);
    for (const { id, line } of events) args.push(id, line);
    return (await this.#store.run(COMMIT, touched, args)) as string | Reply;
  }

  /** @param pending ids and lines in turn */
  async #send(at: string, pending: readonly string[]): Promise<void> {
    if (pending.length === 0) return;
    const ids = pending.filter((_, i) => i % 2 === 0);
    const lines = pending.filter((_, i) => i % 2 === 1);
    try {
      await Promise.all(lines.map((line) => this.#recorder.append(line, at)));
    } catch (error) {
      // Where Redis has no ear for this, the retry waits a little.
      this.#store.run(RELEASE, [this.#store.keys.outbox(at)], [this.#underWayMs, ...ids]).catch(() => {});
      throw error;
    }
    // From here on the caller has what was asked for: told to send again, it would get it twice.
    await this.#forget(at, ids).catch(() => void this.#keepForgetting(at, ids));
  }

  async #forget(at: string, ids: readonly string[]): Promise<void> {
    await this.#atProfile.run(at, SENT, (keys, id) => [keys.visits(id), keys.outbox(id)], ids);
  }

  /** Behind the caller's back. Where even this fails, the next like request is taken for a retry, once. */
  async #keepForgetting(at: string, ids: readonly string[]): Promise<void> {
    for (const delayMs of FORGET_DELAYS_MS) {
      await sleep(delayMs, undefined, { ref: false });
      try {
        return await this.#forget(at, ids);
      } catch {
        // Redis is still away.
      }
    }
  }
}

/** `first` is what the fields have, or, where the outbox is full, what it is full of. */
type Reply = readonly [
  verdict: number,
  first?: readonly string[],
  mine?: readonly string[],
  others?: readonly string[],
];
