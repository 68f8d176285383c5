// Requests that are made once: an Idempotency-Key, or a delivery that repeats. What was asked under a key is done once
// and answered alike for a day.
//
//   (nothing) ──begin──▶ under way {operation's id, places} ──end──▶ answered
//
// The request record is in a slot of its own, found by the key alone. The operation itself is done elsewhere, at a
// place (a profile), in one step with a record of its own there: doing it again under the same id does nothing. A
// retry may find that the place has changed (a merge, a move). It fences the old place first, which tells whether the
// operation was done there and makes sure that it will not be; then it records the new place, then it does it there.

import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { ERRORS, ServiceError } from '../errors.js';
import { loadScript } from './scripts.js';
import type { Store } from './store.js';

/** Seconds for which an Idempotency-Key answers as the first time. */
export const REMEMBERED_S = 24 * 60 * 60;

/** What an earlier try has recorded. */
type Found = [
  id: string,
  at: string,
  fingerprint: string,
  customer: string,
  places: string,
  answer: string | null,
];

const BEGIN = loadScript<1 | Found>('request-begin');
const BEGIN_ERASURE = loadScript<1 | Found>('request-begin-erasure');
const PLACE = loadScript<string>('request-place');
const END = loadScript<string>('request-end');
const FENCE = loadScript<string[]>('fence');

const IN_FLIGHT_GRACE_MS = 500;
/** How often a request that is under way is looked at. */
const POLL_MS = 10;
/** Each lost round means that a retry has taken it to another place. */
const ROUNDS = 16;
/** What `fence` answers where nothing was done, and nothing will be. */
const FENCED = '-';

export interface RequestKey {
  /** Whose key it is; keys of different scopes are different keys. */
  readonly scope: string;
  readonly key: string;
  /** Digest of the request: with another one the key was used for something else. Empty where that can't be. */
  readonly fingerprint: string;
  /** The customer that the request is made for; another customer's request in the same scope is another request. */
  readonly customer?: string | null;
  /** Whether it is an erasure, which Redis takes at its `maxmemory`, too. */
  readonly isErasure?: boolean;
}

/** What was done at an earlier place. */
export interface Done {
  readonly place: string;
  /** What the record says. */
  readonly record: string;
}

const NOTHING: readonly (Done | undefined)[] = [];

/** An operation under a request record. */
export class KeyedOperation {
  /** UUID v7. */
  readonly id: string;
  /** When it was asked first, milliseconds since 1970. */
  readonly at: number;
  readonly #store: Store;
  readonly #recordKey: string;
  readonly #rememberedS: number;
  #places: string;

  constructor(store: Store, recordKey: string, rememberedS: number, id: string, at: number, places: string) {
    this.#store = store;
    this.#recordKey = recordKey;
    this.#rememberedS = rememberedS;
    this.id = id;
    this.at = at;
    this.#places = places;
  }

  /** Where it was, or will be, tried first; undefined where that is not known yet. */
  get firstPlace(): string | undefined {
    return this.#places.split(' ', 1)[0] || undefined;
  }

  /** Id of its record at the place where it is done now. @param part of an operation that is done in parts */
  recordId(part = 0): string {
    return recordIdOf(this.id, this.#places.split(' ').length, part);
  }

  /**
   * Says where it is done now; to be called before it is done there.
   * @param parts that it is done in
   * @returns for each part what was done at an earlier place; it is not to be done again
   * @throws ServiceError `unavailable`
   */
  async settle(place: string, parts = 1): Promise<readonly (Done | undefined)[]> {
    for (;;) {
      const places = this.#places === '' ? [] : this.#places.split(' ');
      const isSettled = places.at(-1) === place;
      const earlier = isSettled ? places.slice(0, -1) : places;
      const done = earlier.length === 0 ? NOTHING : await this.#doneAt(earlier, parts);
      if (isSettled || (earlier.length > 0 && done.every((part) => part !== undefined))) return done;
      await this.#place([...places, place].join(' '));
    }
  }

  /**
   * Its record at this place was fenced: asks where it is done now. The try that fenced it may have ended before it
   * recorded another place. Then it is done here, under another record. @throws ServiceError `unavailable`
   */
  async moveOn(place: string): Promise<void> {
    const { client } = this.#store;
    const known = this.#places;
    this.#places = (await this.#store.call(() => client.hget(this.#recordKey, 'places'))) ?? '';
    if (this.#places === known) await this.#place(`${known} ${place}`);
  }

  /**
   * Does it, or a part of it, at a place: once, however often it is tried and wherever it was tried before.
   * @param act does it under a record; answers what was done before, where that is given
   * @param isFenced whether an answer says that a retry has taken it from there
   * @throws what `act` throws, and ServiceError `unavailable`
   */
  async doAt<Answer>(
    place: string,
    act: (recordId: string, done: Done | undefined) => Promise<Answer>,
    isFenced: (answer: Answer) => boolean,
    [part, parts] = [0, 1],
  ): Promise<Answer> {
    for (let round = 0; round < ROUNDS; round++) {
      const done = await this.settle(place, parts);
      const answer = await act(this.recordId(part), done[part]);
      if (!isFenced(answer)) return answer;
      // The retry may have ended before it could do it elsewhere.
      await this.moveOn(place);
    }
    throw new ServiceError('unavailable');
  }

  /** Ends the tries at these places. @returns for each part what was done there */
  async #doneAt(places: readonly string[], parts: number): Promise<(Done | undefined)[]> {
    const { keys } = this.#store;
    const done = new Array<Done | undefined>(parts).fill(undefined);
    for (const [i, place] of places.entries()) {
      const touched = done.map((_, part) => keys.operation(place, recordIdOf(this.id, i + 1, part)));
      const records = await this.#store.change(FENCE, touched, [this.#rememberedS]);
      for (const [part, record] of records.entries()) if (record !== FENCED) done[part] ??= { place, record };
    }
    return done;
  }

  async #place(wanted: string): Promise<void> {
    const args = [this.id, this.#places, wanted];
    const places = await this.#store.change(PLACE, [this.#recordKey], args);
    if (places === '') throw new ServiceError('unavailable'); // a day has passed, or Redis has lost it
    this.#places = places;
  }
}

function recordIdOf(id: string, place: number, part: number): string {
  return `${id}.${place}.${part}`;
}

export class RequestStore {
  readonly #store: Store;
  readonly #rememberedS: number;
  readonly #graceMs: number;

  /**
   * @param rememberedS seconds for which a key answers as the first time
   * @param graceMs milliseconds for which a request without an answer is taken to be under way
   */
  constructor(store: Store, rememberedS = REMEMBERED_S, graceMs = IN_FLIGHT_GRACE_MS) {
    this.#store = store;
    this.#rememberedS = rememberedS;
    this.#graceMs = graceMs;
  }

  /**
   * @param place where the operation will be done, as far as is known; empty where it is not
   * @param act does what is asked, under the operation; called again by a retry if that may be needed
   * @returns what `act` answered the first time
   * @throws ServiceError `idempotency_key_reused`, `unavailable`, and what `act` throws
   */
  async run(
    { scope, key, fingerprint, customer, isErasure = false }: RequestKey,
    place: string,
    act: (operation: KeyedOperation) => Promise<string>,
  ): Promise<string> {
    const at = Date.now();
    const id = uuidv7({ msecs: at });
    let recordKey = this.#recordKey(scope, key);
    // The record may outlive the visitor: it names no customer.
    const owner = customer ? digestOf(`${this.#store.deployment.salt}${customer}`) : '';
    const begin = () =>
      this.#store.change(
        isErasure ? BEGIN_ERASURE : BEGIN,
        [recordKey],
        [this.#rememberedS, id, at, fingerprint, owner, place],
      );
    let reply = await begin();
    if (owner !== '' && reply !== 1 && ![owner, ''].includes(reply[3])) {
      // A shared device: this session's key was the last customer's. Each customer has its own.
      recordKey = this.#recordKey(`${scope}\n${customer}`, key);
      reply = await begin();
    }
    const graceUntil = performance.now() + this.#graceMs;
    while (reply !== 1) {
      const [foundId, foundAt, foundFingerprint, , places, answer] = reply;
      // The first try of this very call may have lost its reply.
      if (foundId === id) break;
      if (foundFingerprint !== fingerprint) throw new ServiceError('idempotency_key_reused');
      if (answer !== null) return answer;
      if (performance.now() >= graceUntil)
        return this.#finish(
          new KeyedOperation(this.#store, recordKey, this.#rememberedS, foundId, Number(foundAt), places),
          recordKey,
          act,
        );
      await sleep(POLL_MS);
      reply = await begin();
    }
    return this.#finish(
      new KeyedOperation(this.#store, recordKey, this.#rememberedS, id, at, place),
      recordKey,
      act,
    );
  }

  async #finish(
    operation: KeyedOperation,
    recordKey: string,
    act: (operation: KeyedOperation) => Promise<string>,
  ): Promise<string> {
    const end = (answer: string) => this.#store.change(END, [recordKey], [operation.id, answer]);
    try {
      return await end(await act(operation));
    } catch (error) {
      // A 4xx changes nothing: its key is free again. Unless another try was done, before or meanwhile.
      const isRefused = error instanceof ServiceError && ERRORS[error.code].status < 500;
      const answer = isRefused ? await end('') : '';
      if (answer === '') throw error;
      return answer;
    }
  }

  #recordKey(scope: string, key: string): string {
    return this.#store.keys.request(digestOf(`${scope}\n${key}`));
  }
}

function digestOf(text: string): string {
  return hash('sha256', text, 'base64url');
}
