// Idempotency: a request under an Idempotency-Key, or a webhook that repeats, is executed once and answered alike for a day.
//
//   (nothing) ──begin──▶ in flight {operation's id, places} ──end──▶ answered
//
// The request record is found by the key alone, in its own slot. The operation is done at a place (a profile), in one atomic step
// with an operation record there: repeating it with the same id does nothing. If a retry finds that the place has changed (by a
// merge), it fences the old place, which reveals whether the operation was done there and prevents it otherwise; then it records
// the new place, and does the operation there.

import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { ERRORS, ServiceError } from '../errors.js';
import { loadScript, withFlags } from './scripts.js';
import type { Store } from './store.js';

/** Seconds for which an Idempotency-Key is remembered. */
export const REMEMBERED_S = 24 * 60 * 60;

/** The record of an earlier request. */
type Found = [
  id: string,
  at: string,
  fingerprint: string,
  customer: string,
  places: string,
  answer: string | null,
];

const BEGIN = loadScript<1 | Found>('redis/beginRequest');
/** An erasure goes on at Redis's `maxmemory`: it frees memory. */
const BEGIN_ERASURE = withFlags(BEGIN, 'allow-oom');
const PLACE = loadScript<string>('redis/placeRequest');
const END = loadScript<string>('redis/endRequest');
const FENCE = loadScript<string[]>('redis/fenceRequest');

const IN_FLIGHT_GRACE_MS = 500;
/** Interval of checks of a request in flight. */
const POLL_MS = 10;
/** Each failed round means that a retry has moved the operation to another place. */
const ROUNDS = 16;
/** Reply of `fence`: the operation was not done, and won't be. */
const FENCED = '-';

export interface RequestKey {
  /** The owner of the key. */
  readonly scope: string;
  readonly key: string;
  /** Digest of the request: another one means that the key was reused. '' if that is impossible. */
  readonly fingerprint: string;
  /** The customer of the request; within a scope each customer has its own keys. */
  readonly customer?: string | null;
  /** An erasure, which runs at Redis's `maxmemory`, too. */
  readonly isErasure?: boolean;
}

/** An operation that was done at an earlier place. */
export interface Done {
  readonly place: string;
  /** Value of its operation record. */
  readonly record: string;
}

const NOTHING: readonly (Done | undefined)[] = [];

/** An operation under a request record. */
export class KeyedOperation {
  /** UUID v7. */
  readonly id: string;
  /** Time of the first request, milliseconds since 1970. */
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

  /** The first place at which it was, or will be, tried; undefined if unknown. */
  get firstPlace(): string | undefined {
    return this.#places.split(' ', 1)[0] || undefined;
  }

  /** Id of its record at the present place. @param part of an operation in several parts */
  recordId(part = 0): string {
    return recordIdOf(this.id, this.#places.split(' ').length, part);
  }

  /**
   * Sets the present place, before the operation is done there.
   * @param parts number of parts
   * @returns for each part whether it was done at an earlier place: then it must not be done again
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
   * Call after the record at this place was fenced. Reads the present place. If the try that fenced it died before it recorded another
   * place, the operation continues here, with a new record. @throws ServiceError `unavailable`
   */
  async moveOn(place: string): Promise<void> {
    const { client } = this.#store;
    const known = this.#places;
    this.#places = (await this.#store.call(() => client.hget(this.#recordKey, 'places'))) ?? '';
    if (this.#places === known) await this.#place(`${known} ${place}`);
  }

  /**
   * Does the operation, or a part of it, at a place: once, wherever it was tried before.
   * @param act does it under a record; if `done` is given, only answers
   * @param isFenced true if an answer means that the record was fenced
   * @throws errors of `act`, and ServiceError `unavailable`
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
      // The retry may have died before it did the operation elsewhere.
      await this.moveOn(place);
    }
    throw new ServiceError('unavailable');
  }

  /** Fences these places. @returns for each part whether it was done there */
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
    if (places === '') throw new ServiceError('unavailable'); // the record has expired, or Redis has lost it
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
   * @param rememberedS TTL of a key, seconds
   * @param graceMs so long a request without an answer counts as in flight
   */
  constructor(store: Store, rememberedS = REMEMBERED_S, graceMs = IN_FLIGHT_GRACE_MS) {
    this.#store = store;
    this.#rememberedS = rememberedS;
    this.#graceMs = graceMs;
  }

  /**
   * @param place the profile at which the operation will be done, or '' if unknown
   * @param act executes the request under the operation; a retry may call it again
   * @returns the first answer of `act`
   * @throws ServiceError `idempotency_key_reused`, `unavailable`, and errors of `act`
   */
  async run(
    { scope, key, fingerprint, customer, isErasure = false }: RequestKey,
    place: string,
    act: (operation: KeyedOperation) => Promise<string>,
  ): Promise<string> {
    const at = Date.now();
    const id = uuidv7({ msecs: at });
    let recordKey = this.#recordKey(scope, key);
    // The record may outlive the visitor, so it must not name the customer.
    const owner = customer ? digestOf(`${this.#store.deployment.salt}${customer}`) : '';
    const begin = () =>
      this.#store.change(
        isErasure ? BEGIN_ERASURE : BEGIN,
        [recordKey],
        [this.#rememberedS, id, at, fingerprint, owner, place],
      );
    let reply = await begin();
    if (owner !== '' && reply !== 1 && ![owner, ''].includes(reply[3])) {
      // A shared device: the key was used by the session's previous customer. Each customer has its own keys.
      recordKey = this.#recordKey(`${scope}\n${customer}`, key);
      reply = await begin();
    }
    const graceUntil = performance.now() + this.#graceMs;
    while (reply !== 1) {
      const [foundId, foundAt, foundFingerprint, , places, answer] = reply;
      // This call's own first try, whose reply was lost.
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
      // A 4xx changes nothing, so its key is free again, unless another try has succeeded.
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
